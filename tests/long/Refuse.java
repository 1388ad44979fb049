import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Refuse NAMESRV TOPIC GROUP COUNT TIMEOUT_S
 *
 * Consumes from the first message and gives every message back to be a dead letter at once, until COUNT were given back.
 * Ends with code 1 when they did not come in time.
 */
public final class Refuse {
    public static void main(String[] args) throws Exception {
        CountDownLatch wanted = new CountDownLatch(Integer.parseInt(args[3]));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(5000);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            // A level below 0 asks for no further delivery.
            context.setDelayLevelWhenNextConsume(-1);
            messages.forEach(message -> wanted.countDown());
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        boolean all = wanted.await(Long.parseLong(args[4]), TimeUnit.SECONDS);
        consumer.shutdown();
        System.exit(all ? 0 : 1);
    }

    private Refuse() {
    }
}
