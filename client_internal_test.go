package watermillsqs

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lateConn is a connection on which the answer is always faster than the end of
// the request: a write of a request body returns only when the answer's header has
// been read and more of it is asked for. net/http has then not finished its
// trailing copy of the request body, and the SDK has closed that body already.
// Without it this happens by chance, to a few answers in a hundred of a server on
// loopback.
type lateConn struct {
	net.Conn

	mu       sync.Mutex // guards what follows
	answered bool       // some of the answer has been read
	more     chan struct{}
}

func (c *lateConn) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("POST ")) {
		return c.Conn.Write(b)
	}
	more := make(chan struct{})
	c.mu.Lock()
	c.answered, c.more = false, more
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	if err == nil {
		<-more
	}
	return n, err
}

func (c *lateConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	release := c.answered && c.more != nil
	if release {
		close(c.more)
		c.more = nil
	}
	c.mu.Unlock()
	for i := 0; release && i < 20; i++ {
		runtime.Gosched() // the write loop comes to its end before the answer does
	}
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered = true; err != nil && c.more != nil {
		close(c.more)
		c.more = nil
	}
	return n, err
}

func dialLate(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: conn}, nil
}

// The HTTP clients do not tear answers: a torn one is retried by the SDK in
// silence, and its messages stay in flight. What the server answers more often
// than the client called is what was lost.
func TestAnswersAreNotTorn(t *testing.T) {
	const receives, atOnce = 2000, 2
	body := strings.Repeat("0123456789abcdef", 384) // 6 KiB
	sum := md5.Sum([]byte(body))
	answer, err := json.Marshal(map[string]any{"Messages": []map[string]string{{
		"MessageId": "1", "ReceiptHandle": "1", "Body": body, "MD5OfBody": hex.EncodeToString(sum[:]),
	}}})
	require.NoError(t, err)
	own := &http.Client{Transport: &http.Transport{DialContext: dialLate}}
	defer own.CloseIdleConnections()
	keys := credentials.NewStaticCredentialsProvider("test", "test", "")

	for name, config := range map[string]Config{
		"built": {TestCredentials: true, SQSOptions: []func(*sqs.Options){func(o *sqs.Options) {
			o.HTTPClient.(*http.Client).Transport.(*http.Transport).DialContext = dialLate
		}}},
		"prebuilt": {AWS: &aws.Config{Region: testRegion, Credentials: keys, HTTPClient: own}},
	} {
		t.Run(name, func(t *testing.T) {
			var answers atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				answers.Add(1)
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				_, _ = w.Write(answer)
			}))
			defer server.Close()
			config.Endpoint = server.URL
			conn, err := Connect(t.Context(), config)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			var group sync.WaitGroup
			for range atOnce {
				group.Go(func() {
					for range receives / atOnce {
						out, err := conn.clients.polls.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(server.URL + "/1/q")})
						if !assert.NoError(t, err) {
							return
						}
						assert.Len(t, out.Messages, 1)
					}
				})
			}
			group.Wait()
			assert.EqualValues(t, receives, answers.Load(), "more answers than calls are retries in silence")
		})
	}
}
