// Package watermillsqs is a Watermill transport over Amazon SQS.
package watermillsqs

import (
	_ "github.com/ThreeDotsLabs/watermill"
	_ "github.com/aws/aws-sdk-go-v2/config"
	_ "github.com/aws/aws-sdk-go-v2/credentials"
	_ "github.com/aws/aws-sdk-go-v2/service/sqs"
	_ "github.com/aws/smithy-go"
)
