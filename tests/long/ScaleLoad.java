import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * ScaleLoad NAMESRV TOPIC SEND_S TOTAL_S
 *
 * Two groups consume the topic, and a producer sends about 50 messages a second for SEND_S seconds: of 20, one is delayed by
 * two minutes (level 6), one is timed for 100 s, one is a half message that is committed when the broker asks, the others are plain.
 * Then it waits until both groups have everything, TOTAL_S seconds from the start at most, and prints for each kind how many were
 * sent and how many each group never got, and the number of duplicates. Exit 1 when something was not received.
 */
public final class ScaleLoad {
    private static final String[] KINDS = {"delayed", "timed", "half", "plain"};

    private static String kind(int i) {
        return KINDS[Math.min(i % 20, 3)];
    }

    private static DefaultMQPushConsumer consumer(String ns, String topic, String group, Map<String, AtomicInteger> got) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(ns);
        consumer.setInstanceName(group + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                got.computeIfAbsent(message.getKeys(), key -> new AtomicInteger()).incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    public static void main(String[] args) throws Exception {
        String ns = args[0];
        String topic = args[1];
        Map<String, AtomicInteger> first = new ConcurrentHashMap<>();
        Map<String, AtomicInteger> second = new ConcurrentHashMap<>();
        DefaultMQPushConsumer one = consumer(ns, topic, "CG_LOAD_1", first);
        DefaultMQPushConsumer two = consumer(ns, topic, "CG_LOAD_2", second);
        DefaultMQProducer plain = new DefaultMQProducer("PG_LOAD");
        plain.setNamesrvAddr(ns);
        plain.setInstanceName("plain" + System.nanoTime());
        plain.start();
        TransactionMQProducer tx = new TransactionMQProducer("PG_LOAD_TX");
        tx.setNamesrvAddr(ns);
        tx.setInstanceName("tx" + System.nanoTime());
        tx.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        tx.start();
        Map<String, String> sent = new ConcurrentHashMap<>();
        int failed = 0;
        plain.send(new Message(topic, "first", "first", new byte[1]));
        System.out.println("sending");
        long start = System.currentTimeMillis();
        long sendEnd = start + Integer.parseInt(args[2]) * 1000L;
        long end = start + Integer.parseInt(args[3]) * 1000L;
        for (int i = 0; System.currentTimeMillis() < sendEnd; i++) {
            String key = "K-" + i;
            String kind = kind(i);
            Message message = new Message(topic, kind, key, key.getBytes(StandardCharsets.UTF_8));
            try {
                SendStatus status;
                if (kind.equals("half")) {
                    status = tx.sendMessageInTransaction(message, null).getSendStatus();
                } else {
                    if (kind.equals("delayed")) {
                        message.setDelayTimeLevel(6);
                    } else if (kind.equals("timed")) {
                        message.setDelayTimeSec(100);
                    }
                    status = plain.send(message).getSendStatus();
                }
                if (status == SendStatus.SEND_OK) {
                    sent.put(key, kind);
                } else {
                    failed++;
                }
            } catch (Exception e) {
                failed++;
                System.out.println("send failed: " + e);
            }
            Thread.sleep(20);
        }
        System.out.println("sending ended, " + sent.size() + " sent");
        while (System.currentTimeMillis() < end && !(first.keySet().containsAll(sent.keySet()) && second.keySet().containsAll(sent.keySet()))) {
            Thread.sleep(200);
        }
        Map<String, int[]> counts = new TreeMap<>();
        for (Map.Entry<String, String> entry : sent.entrySet()) {
            int[] count = counts.computeIfAbsent(entry.getValue(), kind -> new int[5]);
            AtomicInteger a = first.get(entry.getKey());
            AtomicInteger b = second.get(entry.getKey());
            count[0]++;
            count[1] += a == null ? 1 : 0;
            count[2] += b == null ? 1 : 0;
            count[3] += a == null ? 0 : a.get() - 1;
            count[4] += b == null ? 0 : b.get() - 1;
        }
        int lost = 0;
        System.out.println("kind sent not_received_1 not_received_2 again_1 again_2");
        for (Map.Entry<String, int[]> entry : counts.entrySet()) {
            int[] c = entry.getValue();
            lost += c[1] + c[2];
            System.out.println(entry.getKey() + " " + c[0] + " " + c[1] + " " + c[2] + " " + c[3] + " " + c[4]);
        }
        System.out.println("send_failures " + failed + " after_s " + (System.currentTimeMillis() - start) / 1000);
        one.shutdown();
        two.shutdown();
        plain.shutdown();
        tx.shutdown();
        System.exit(lost == 0 ? 0 : 1);
    }
}
