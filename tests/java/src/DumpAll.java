import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * DumpAll NAMESRV TOPIC [group=CG_DUMP]
 *
 * Pulls every queue of the topic from its min to its max offset, in order of broker name and queue id. Prints one line a
 * message, its columns separated by tabs: queueId queueOffset commitLogOffset storeSize keys tags md5(body) msgId
 * offsetMsgId. msgId is the unique key of the client that sent it. Stores no offsets. Ends with code 1 when a queue
 * could not be read to its end.
 */
public final class DumpAll {
    public static void main(String[] args) {
        Options.main(args, DumpAll::run);
    }

    @SuppressWarnings("deprecation")
    static int run(String[] args) throws Exception {
        if (args.length < 2) {
            throw new IllegalArgumentException("usage: DumpAll NAMESRV TOPIC [group=]");
        }
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(new Options(args, 2).text("group", "CG_DUMP"));
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("dump-" + System.nanoTime());
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(args[1]));
        queues.sort(null);
        boolean whole = true;
        StringBuilder out = new StringBuilder();
        for (MessageQueue queue : queues) {
            long at = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (at < end) {
                PullResult result = consumer.pull(queue, "*", at, 32);
                for (MessageExt message : result.getMsgFoundList() == null ? List.<MessageExt>of() : result.getMsgFoundList()) {
                    String offsetMsgId = message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : "-";
                    out.append(message.getQueueId()).append('\t').append(message.getQueueOffset()).append('\t')
                        .append(message.getCommitLogOffset()).append('\t').append(message.getStoreSize()).append('\t')
                        .append(Lines.content(message)).append('\t').append(message.getMsgId()).append('\t')
                        .append(offsetMsgId).append('\n');
                }
                if (result.getNextBeginOffset() <= at) {
                    System.err.println(queue + ": stuck at " + at + " of " + end + ": " + result.getPullStatus());
                    whole = false;
                    break;
                }
                at = result.getNextBeginOffset();
            }
        }
        consumer.shutdown();
        System.out.print(out);
        return whole ? 0 : 1;
    }

    private DumpAll() {
    }
}
