import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Stay NAMESRV TOPIC GROUP [name=value ...]
 *
 * Push consumers that stay online until standard input ends. Prints "online" when they are started and then a line a
 * delivery: brokerName queueId queueOffset keys (tabs between).
 *
 * Options: clients=1, tags=* (one subscription a client, separated by commas), models=CLUSTERING (one a client), instances=
 * (client instances, separated by commas), stuck=0 (1: the listener never comes back), server=0 (1: the broker gives out the
 * messages by POP, the client does not rebalance itself).
 */
public final class Stay {
    public static void main(String[] args) {
        Options.main(args, Stay::run);
    }

    private static String pick(String[] values, int i) {
        return values[Math.min(i, values.length - 1)];
    }

    static int run(String[] args) throws Exception {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: Stay NAMESRV TOPIC GROUP [clients= tags= models= instances= stuck= server=]");
        }
        Options options = new Options(args, 3);
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        int clients = options.number("clients", 1);
        String[] tags = options.text("tags", "*").split(",");
        String[] models = options.text("models", "CLUSTERING").split(",");
        String[] instances = options.text("instances", "").split(",");
        boolean stuck = options.number("stuck", 0) != 0;
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2], null, new AllocateMessageQueueAveragely());
            consumer.setNamesrvAddr(args[0]);
            consumer.setInstanceName(instances[0].isEmpty() ? "stay" + i : pick(instances, i));
            consumer.setPollNameServerInterval(1000);
            consumer.setMqClientApiTimeout(30000);
            consumer.setPersistConsumerOffsetInterval(500);
            consumer.setHeartbeatBrokerInterval(1000);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setMessageModel(MessageModel.valueOf(pick(models, i)));
            consumer.setClientRebalance(options.number("server", 0) == 0);
            consumer.setConsumeThreadMin(1);
            consumer.setConsumeThreadMax(1);
            consumer.subscribe(args[1], pick(tags, i));
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    System.out.println(message.getBrokerName() + "\t" + message.getQueueId() + "\t" + message.getQueueOffset()
                        + "\t" + Lines.orDash(message.getKeys()));
                }
                if (stuck) {
                    try {
                        new CountDownLatch(1).await();
                    } catch (InterruptedException e) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        System.out.println("online");
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
        if (!stuck) {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
        }
        return 0;
    }

    private Stay() {
    }
}
