"""The DynamoGraphDeploymentRequest controller: one Run for every accepted generation."""
