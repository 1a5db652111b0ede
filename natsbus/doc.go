// Package natsbus is a [bus.Bus] on NATS: signals are messages of NATS, and the log of events is a stream of JetStream.
//
//	b, err := natsbus.Open(ctx, "nats://user:password@a:4222,b:4222,c:4222", nil)
//
// A server that cannot be reached does not keep a process from starting and does not hold up its calls: Signal and Append
// fail at once, or within two seconds if the connection has just been lost, and listeners and live readers go on by themselves when it is back.
// A connection that is silently dead is given up after three seconds.
//
// # What is on the server
//
//	<name>.signal.<topic>    signals; the topic is encoded, so that it has no wildcards
//	<name>.events.<thread>   events, stored in the stream <NAME>_EVENTS
//	<name>.live.<thread>     the same, sent by the server to live readers when they are stored
//
// The stream is on disk, keeps events for ten minutes, ignores what is appended again within two, and has three replicas if the
// cluster has three servers. Open makes it, or a goroutine in the background if the server is down then. A user needs permission to
// publish and subscribe to <name>.>, _INBOX.>, $JS.API.> and $JS.EVENT.ADVISORY.STREAM.>.
//
// Events that are larger than a message may be (max_payload of the server, 1 MB by default) are stored in parts, which Read puts together
// again. They may have 64 MB.
//
// # How a thread is read
//
// Stored events are read with batched direct gets, which take no state on the server. In a cluster any replica answers these, also
// one that lags behind, so Read asks the leader of the stream in the end whether that was all.
//
// A live reader also subscribes to <name>.live.<thread>. The server puts the sequence number of a message, and that of the message before it in the
// thread, into its header. So a reader notices a gap, and reads from the stream what it was not sent. It also looks
// into the stream when the connection was lost, when the stream has a new leader, when it was too slow for its queue (512 messages or
// 4 MB), and every ten seconds. The readers of one thread in a process share a subscription, and those of all
// threads one goroutine.
//
// Two other ways were tried. An ordered consumer of JetStream per reader is an object on the server, and takes five goroutines in client and server. One
// consumer per process for all threads that are followed has a list of subjects, and the server compares all of them with each other when one is
// added. BenchmarkReaders compares the first with Read: 1,000 threads are read on one connection and get 1,000 events a second from another one,
// with the server in the same process, on two shared cores (load 5), medians of three:
//
//	                               Read       ordered consumers
//	memory of client and server    9 KiB      65 KiB per reader
//	from Append to the reader      0.15 ms    0.33 ms (p50)
//	                               0.7 ms     12 ms (p99)
//	until all 1,000 have begun     0.2 s      0.7 s
//
// The ordered consumers had their default settings. To add a thread to a shared consumer with a little over 1,000 took 0.2 s (the average of
// 50, one run).
package natsbus
