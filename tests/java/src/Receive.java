import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Receive NAMESRV TOPIC GROUP COUNT TIMEOUT_S [name=value ...]
 *
 * Consumes with the push consumer from the group's offsets (a new group: from the first message) until COUNT messages
 * were delivered, then stops, storing its offsets. Prints one line a message as it comes, its columns separated by tabs:
 * queueId queueOffset keys tags md5(body) reconsumeTimes. Ends with code 1 when COUNT did not come in time.
 *
 * Options: tag=* (subscription expression), linger=0 (ms to wait for messages beyond COUNT), retry=0 (ask once more for
 * each of the first N messages; every delivery counts).
 */
public final class Receive {
    public static void main(String[] args) {
        Options.main(args, Receive::run);
    }

    static int run(String[] args) throws Exception {
        if (args.length < 5) {
            throw new IllegalArgumentException("usage: Receive NAMESRV TOPIC GROUP COUNT TIMEOUT_S [tag= linger= retry=]");
        }
        CountDownLatch wanted = new CountDownLatch(Integer.parseInt(args[3]));
        long timeoutSeconds = Long.parseLong(args[4]);
        Options options = new Options(args, 5);
        int[] toRetry = {options.number("retry", 0)};

        // A new group's retry topic is found by polling; the client's own 20 and 30 s would be most of a test's time.
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(args[2], null, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(1000);
        consumer.setInstanceName("receive-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], options.text("tag", "*"));
        // The last message is counted before the client notes that it was consumed.
        consumer.setAwaitTerminationMillisWhenShutdown(5000);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                boolean again = false;
                for (MessageExt message : messages) {
                    System.out.println(message.getQueueId() + "\t" + message.getQueueOffset() + "\t"
                        + Lines.content(message) + "\t" + message.getReconsumeTimes());
                    again |= message.getReconsumeTimes() == 0 && toRetry[0]-- > 0;
                    wanted.countDown();
                }
                context.setDelayLevelWhenNextConsume(1);
                return again ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception e) {
                e.printStackTrace();
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
        });
        consumer.start();
        boolean all = wanted.await(timeoutSeconds, TimeUnit.SECONDS);
        Thread.sleep(options.number("linger", 0));
        consumer.shutdown();
        if (!all) {
            System.err.println(wanted.getCount() + " messages are missing after " + timeoutSeconds + " s");
        }
        return all ? 0 : 1;
    }

    private Receive() {
    }
}
