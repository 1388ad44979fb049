import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Orders NAMESRV
 *
 * Makes the traffic that the reference values of mqadmin were measured on: topic OrderEvents with 8 queues on each of two
 * brokers and the groups CG_ORDERS, CG_LAG and CG_FAIL must exist. 160 messages of producer group PG_ORDERS, ten a queue, are
 * read by two clients of CG_ORDERS, one of CG_LAG and one of CG_FAIL, which asks for each message once more and then gives it
 * up; the client of CG_LAG stops; 80 more messages follow, five a queue. All with trace.
 *
 * Prints "first UNIQUE_ID OFFSET_ID" of message 0 and "ready" when everything was read and given up; the clients stay online
 * until standard input ends.
 */
public final class Orders {
    private static final String TOPIC = "OrderEvents";

    public static void main(String[] args) {
        Options.main(args, Orders::run);
    }

    /** What a consumer got: messages by key, and all deliveries. */
    private static final class Got {
        final Set<String> keys = ConcurrentHashMap.newKeySet();
        final AtomicInteger deliveries = new AtomicInteger();
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String group, String instance, boolean fail, Got got)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, null, new AllocateMessageQueueAveragely(), true, null);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance);
        consumer.setPollNameServerInterval(1000);
        consumer.setMqClientApiTimeout(30000);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(5000);
        if (fail) {
            consumer.setMaxReconsumeTimes(1);
        }
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                got.keys.add(message.getKeys());
                got.deliveries.incrementAndGet();
            }
            context.setDelayLevelWhenNextConsume(1);
            return fail ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static void until(String what, Got got, int keys, int deliveries) throws InterruptedException {
        long end = System.currentTimeMillis() + 120_000;
        while (got.keys.size() < keys || got.deliveries.get() < deliveries) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException(what + " got " + got.keys.size() + " of " + keys + " messages in "
                    + got.deliveries.get() + " of " + deliveries + " deliveries");
            }
            Thread.sleep(20);
        }
    }

    private static void send(DefaultMQProducer producer, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            byte[] body = ("{\"order\":" + i + "}").getBytes(StandardCharsets.UTF_8);
            Message message = new Message(TOPIC, i % 2 == 0 ? "TagA" : "TagB", "K-" + i, body);
            message.putUserProperty("seq", Integer.toString(i));
            int number = i % 16;
            SendResult sent =
                producer.send(message, new MessageQueue(TOPIC, number < 8 ? "broker-a" : "broker-b", number % 8));
            if (i == 0) {
                System.out.println("first\t" + sent.getMsgId() + "\t" + sent.getOffsetMsgId());
            }
        }
    }

    static int run(String[] args) throws Exception {
        if (args.length != 1) {
            throw new IllegalArgumentException("usage: Orders NAMESRV");
        }
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        DefaultMQProducer producer = new DefaultMQProducer("PG_ORDERS", true, null);
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("prod1");
        producer.setSendMsgTimeout(30000);
        producer.setMqClientApiTimeout(30000);
        producer.start();
        send(producer, 0, 160);
        Got orders = new Got();
        Got lag = new Got();
        Got fail = new Got();
        consumer(args[0], "CG_ORDERS", "cons1", false, orders);
        consumer(args[0], "CG_ORDERS", "cons2", false, orders);
        DefaultMQPushConsumer lagging = consumer(args[0], "CG_LAG", "lag1", false, lag);
        consumer(args[0], "CG_FAIL", "fail1", true, fail);
        until("CG_LAG", lag, 160, 160);
        lagging.shutdown();
        until("CG_ORDERS", orders, 160, 160);
        send(producer, 160, 240);
        until("CG_ORDERS", orders, 240, 240);
        until("CG_FAIL", fail, 240, 480);
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
        return 0;
    }

    private Orders() {
    }
}
