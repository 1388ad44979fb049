import java.security.MessageDigest;
import org.apache.rocketmq.common.message.MessageExt;

/** How the programs here print a message, so that their outputs can be compared line by line. */
final class Lines {
    /** keys, tags and md5 of the body (after decompression), "-" for what a message lacks. */
    static String content(MessageExt message) throws Exception {
        return orDash(message.getKeys()) + "\t" + orDash(message.getTags()) + "\t" + md5(message.getBody());
    }

    static String orDash(String text) {
        return text == null || text.isEmpty() ? "-" : text;
    }

    private static String md5(byte[] body) throws Exception {
        StringBuilder hex = new StringBuilder();
        for (byte b : MessageDigest.getInstance("MD5").digest(body)) {
            hex.append(String.format("%02x", b));
        }
        return hex.toString();
    }

    private Lines() {
    }
}
