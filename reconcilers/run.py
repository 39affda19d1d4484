"""The DynamoGraphDeploymentRun controller: one frozen Job for every Run."""
