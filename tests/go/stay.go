// Stay NAMESRV TOPIC GROUP: a push consumer of Apache's Go client that stays until standard input ends. Prints "online" and then
// a line a delivery: brokerName queueId queueOffset keys (tabs between), as Stay.java.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: stay NAMESRV TOPIC GROUP")
		os.Exit(2)
	}
	rlog.SetLogLevel("error")
	var print sync.Mutex
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(strings.Split(os.Args[1], ";")),
		consumer.WithGroupName(os.Args[3]),
		consumer.WithInstance("stay"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err == nil {
		err = c.Subscribe(os.Args[2], consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			print.Lock()
			defer print.Unlock()
			for _, m := range messages {
				fmt.Printf("%s\t%d\t%d\t%s\n", m.Queue.BrokerName, m.Queue.QueueId, m.QueueOffset, m.GetKeys())
			}
			return consumer.ConsumeSuccess, nil
		})
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("online")
	io.Copy(io.Discard, os.Stdin)
	if err := c.Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
