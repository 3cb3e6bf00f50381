package watermillsqs

import (
	"crypto/md5" //nolint:gosec // SQS's choice
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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

// The HTTP clients do not tear answers: a torn one is retried by the SDK in
// silence, and its messages stay in flight. A fast server on loopback, which
// answers before the request body has been copied to its end, tears some 3 % of
// the answers over 4 KiB where the guard is missing. What the server answers more
// often than the client called is what was lost.
func TestAnswersAreNotTorn(t *testing.T) {
	const receives, atOnce = 2000, 2
	body := strings.Repeat("0123456789abcdef", 384) // 6 KiB
	sum := md5.Sum([]byte(body))                    //nolint:gosec // SQS's choice
	answer, err := json.Marshal(map[string]any{"Messages": []map[string]string{{
		"MessageId": "1", "ReceiptHandle": "1", "Body": body, "MD5OfBody": hex.EncodeToString(sum[:]),
	}}})
	require.NoError(t, err)
	own := &http.Client{Transport: &http.Transport{}}
	defer own.CloseIdleConnections()
	keys := credentials.NewStaticCredentialsProvider("test", "test", "")

	for name, config := range map[string]Config{
		"built":    {TestCredentials: true},
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
						if assert.NoError(t, err) {
							assert.Len(t, out.Messages, 1)
						}
					}
				})
			}
			group.Wait()
			assert.EqualValues(t, receives, answers.Load(), "more answers than calls are retries in silence")
		})
	}
}
