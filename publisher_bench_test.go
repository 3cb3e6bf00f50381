package watermillsqs_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// yesService accepts every message after a latency and counts its calls: the least a
// publisher has to be measured with.
type yesService struct {
	latency time.Duration
	sends   atomic.Int64
}

func (s *yesService) RoundTrip(r *http.Request) (*http.Response, error) {
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := `{"MessageId":"m"}`
	switch actionOf(r) {
	case "GetQueueUrl":
		answer = `{"QueueUrl":"http://sqs.test/1/orders"}`
	case "SendMessageBatch":
		entries := make([]string, strings.Count(string(request), `"Id":"`))
		for i := range entries {
			entries[i] = `{"MessageId":"m","Id":"` + strconv.Itoa(i) + `"}`
		}
		answer = `{"Successful":[` + strings.Join(entries, ",") + `]}`
		fallthrough
	default:
		s.sends.Add(1)
		if s.latency > 0 {
			time.Sleep(s.latency)
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)), Request: r,
	}, nil
}

func (s *yesService) publisher(t testing.TB) *watermillsqs.Publisher {
	cfg := aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: &http.Client{Transport: s},
	}
	conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{AWS: &cfg})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	require.NoError(t, err)
	require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
	s.sends.Store(0)
	return pub
}

// BenchmarkPublish publishes one message a call from a number of goroutines, and tells
// how many SQS calls a message takes.
func BenchmarkPublish(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		for _, goroutines := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("latency=%v/goroutines=%d", latency, goroutines), func(b *testing.B) {
				service := &yesService{latency: latency}
				pub := service.publisher(b)
				payload := []byte(strings.Repeat("x", 200))
				b.ReportAllocs()
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var group sync.WaitGroup
				for range goroutines {
					group.Go(func() {
						for left.Add(-1) >= 0 {
							if err := pub.Publish("orders", message.NewMessage("1", payload)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64(service.sends.Load())/float64(b.N), "calls/msg")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			})
		}
	}
}
