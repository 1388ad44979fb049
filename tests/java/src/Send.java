import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.LanguageCode;

/**
 * Send NAMESRV TOPIC COUNT [name=value ...]
 *
 * Sends messages first..first+COUNT-1. Message i has the keys "K-i" and "shared-(i mod 10)", the tag TagA, TagB or none
 * (i mod 3), the user property seq=i and a body that is a function of i and size alone. Prints one line an ack, in the
 * order of i, its columns separated by tabs: i status msgId offsetMsgId queueId queueOffset.
 *
 * Options: first=0, size=64 (bytes of body), queue=-1 (-1 is round robin over the queues in order of broker and id),
 * group=PG_INTEROP, timeout=10000 (ms), level=0 (delay level), compress=4096 (bodies above are compressed).
 */
public final class Send {
    public static void main(String[] args) {
        Options.main(args, Send::run);
    }

    private static int run(String[] args) throws Exception {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: Send NAMESRV TOPIC COUNT [first= size= queue= group= timeout= level= compress=]");
        }
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        Options options = new Options(args, 3);
        int first = options.number("first", 0);
        int size = options.number("size", 64);
        int queue = options.number("queue", -1);
        int level = options.number("level", 0);

        DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "PG_INTEROP"));
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("send-" + System.nanoTime());
        producer.setSendMsgTimeout(options.number("timeout", 10000));
        producer.setCompressMsgBodyOverHowmuch(options.number("compress", 4096));
        producer.setMaxMessageSize(64 * 1024 * 1024);
        producer.start();
        int failed = 0;
        List<MessageQueue> queues = null;
        for (int i = first; i < first + count; i++) {
            Message message = new Message(topic, tag(i), body(i, size));
            message.setKeys(Arrays.asList("K-" + i, "shared-" + i % 10));
            message.putUserProperty("seq", Integer.toString(i));
            if (level > 0) {
                message.setDelayTimeLevel(level);
            }
            try {
                SendResult result;
                if (queues == null) {
                    queues = queues(producer, topic);
                }
                if (queues.isEmpty()) { // the topic does not exist yet: this send makes it
                    queues = null;
                    result = producer.send(message);
                } else if (queue >= 0) {
                    result = producer.send(message, new MessageQueue(topic, queues.get(0).getBrokerName(), queue));
                } else {
                    result = producer.send(message, queues.get(i % queues.size()));
                }
                System.out.println(i + "\t" + result.getSendStatus() + "\t" + result.getMsgId() + "\t"
                    + result.getOffsetMsgId() + "\t" + result.getMessageQueue().getQueueId() + "\t" + result.getQueueOffset());
            } catch (Exception e) {
                failed++;
                System.out.println(i + "\tFAILED\t" + e.toString().replaceAll("\\s+", " "));
            }
        }
        producer.shutdown();
        return failed == 0 ? 0 : 1;
    }

    /** The topic's queues in a fixed order, empty while no name server knows the topic. */
    private static List<MessageQueue> queues(DefaultMQProducer producer, String topic) {
        try {
            List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
            queues.sort(null);
            return queues;
        } catch (Exception unknown) {
            return List.of();
        }
    }

    private static String tag(int i) {
        return i % 3 == 0 ? "TagA" : i % 3 == 1 ? "TagB" : null;
    }

    /** The text "body-i;" repeated up to just size bytes. */
    static byte[] body(int i, int size) {
        byte[] unit = ("body-" + i + ";").getBytes(StandardCharsets.UTF_8);
        byte[] body = new byte[size];
        for (int at = 0; at < size; at++) {
            body[at] = unit[at % unit.length];
        }
        return body;
    }

    private Send() {
    }
}
