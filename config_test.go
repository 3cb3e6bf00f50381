package watermillsqs_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

func TestConfigIsValidated(t *testing.T) {
	withoutAWSEnvironment(t)
	prebuilt := &aws.Config{Region: "eu-central-1"}
	for _, test := range []struct {
		name   string
		config watermillsqs.Config
		says   []string
	}{
		{"negative AttemptTimeout", watermillsqs.Config{TestCredentials: true, AttemptTimeout: -time.Second}, []string{"AttemptTimeout", "-1s", "negative"}},
		{"TestCredentials and AWS", watermillsqs.Config{AWS: prebuilt, TestCredentials: true}, []string{"TestCredentials", "AWS"}},
		{"endpoint without scheme", watermillsqs.Config{TestCredentials: true, Endpoint: "localhost:9324"}, []string{"Endpoint", `"localhost:9324"`, "http"}},
		{"endpoint of another scheme", watermillsqs.Config{TestCredentials: true, Endpoint: "ftp://localhost"}, []string{"Endpoint", `"ftp://localhost"`, "http"}},
		{"endpoint without host", watermillsqs.Config{TestCredentials: true, Endpoint: "http://"}, []string{"Endpoint", `"http://"`}},
		{"relative endpoint", watermillsqs.Config{TestCredentials: true, Endpoint: "/sqs"}, []string{"Endpoint", `"/sqs"`}},
		{"malformed endpoint", watermillsqs.Config{TestCredentials: true, Endpoint: "http://[::1"}, []string{"Endpoint", `"http://[::1"`}},
		{"endpoint and AWS", watermillsqs.Config{AWS: prebuilt, Endpoint: "nonsense"}, []string{"Endpoint", `"nonsense"`}},
		{"no region", watermillsqs.Config{}, []string{"region", "Config.Region"}},
		{"no region in AWS", watermillsqs.Config{AWS: &aws.Config{}}, []string{"region", "Config.Region"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := watermillsqs.Connect(t.Context(), test.config)
			require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
			for _, text := range test.says {
				assert.ErrorContains(t, err, text)
			}
		})
	}
	assert.Equal(t, &aws.Config{Region: "eu-central-1"}, prebuilt)

	_, err := watermillsqs.NewPublisher(nil, watermillsqs.PublisherConfig{}, nil)
	assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
	_, err = watermillsqs.NewSubscriber(nil, watermillsqs.SubscriberConfig{}, nil)
	assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
}

// TestCredentials need no region; a configured one is used.
func TestTestCredentials(t *testing.T) {
	withoutAWSEnvironment(t)
	for _, test := range []struct{ environment, config, want string }{
		{"", "", "us-east-1"},
		{"eu-west-3", "", "eu-west-3"},
		{"eu-west-3", "eu-north-1", "eu-north-1"},
	} {
		t.Setenv("AWS_REGION", test.environment)
		var options sqs.Options
		conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{
			Region:          test.config,
			TestCredentials: true,
			SQSOptions:      []func(*sqs.Options){func(o *sqs.Options) { options = o.Copy() }},
		})
		require.NoError(t, err)
		assert.Equal(t, test.want, options.Region)
		keys, err := options.Credentials.Retrieve(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "test", keys.AccessKeyID)
		assert.Equal(t, "test", keys.SecretAccessKey)
		require.NoError(t, conn.Close())
	}
}

func TestSubscriberAndPublisherConfigs(t *testing.T) {
	t.Parallel()
	conn := watermillsqs.NewConnection(watermillsqs.Config{})
	for _, test := range []struct {
		config watermillsqs.SubscriberConfig
		says   []string
	}{
		{watermillsqs.SubscriberConfig{MaxInFlight: -1}, []string{"MaxInFlight", "-1", "at least 1"}},
		{watermillsqs.SubscriberConfig{MaxExtension: 12*time.Hour + 1}, []string{"MaxExtension", "12h0m0.000000001s", "12h"}},
	} {
		_, err := watermillsqs.NewSubscriber(conn, test.config, nil)
		require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
		for _, text := range test.says {
			assert.ErrorContains(t, err, text)
		}
	}
	_, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{PublishTimeout: -time.Second}, nil)
	require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
	assert.ErrorContains(t, err, "PublishTimeout is -1s")
	_, err = watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{
		Marshaler: watermillsqs.DefaultMarshaler{AttributeKeys: make([]string, 9)},
	}, nil)
	assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
}
