import { status } from '@grpc/grpc-js'
import t from 'tap'
import { callUnary, connect, jwt, metadataOf } from '../rails-server/start-server.ts'
import { startWholeKas } from './whole-kas.ts'

/**
 * Methods that later releases of upstream serve and that nobody could confirm (doc/reference/gitlab-contract.md 10.2).
 */

const ofAgents = [
  'gitlab.agent.job_router.rpc.JobRouter/GetJob',
  'grpc.health.v1.Health/Check',
  'grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
]
const ofGitlab = [
  ...[
    'GetEnvironmentTemplate',
    'GetDefaultEnvironmentTemplate',
    'RenderEnvironmentTemplate',
    'EnsureEnvironment',
    'DeleteEnvironment',
  ].map((method) => `gitlab.agent.managed_resources.rpc.Provisioner/${method}`),
  'gitlab.agent.auto_flow.rpc.AutoFlow/CloudEvent',
  'gitlab.agent.auto_flow.rpc.AutoFlow/StartWorkflow',
  'gitlab.agent.events_platform.rpc.EventsPlatform/Publish',
  'gitlab.agent.events_platform.rpc.EventsPlatform/Subscribe',
  'grpc.health.v1.Health/Check',
]

// wire: 8150.GetJob, 8150.health, 8153.GetEnvironmentTemplate
// wire: 8153.GetDefaultEnvironmentTemplate, 8153.RenderEnvironmentTemplate, 8153.EnsureEnvironment
// wire: 8153.DeleteEnvironment, 8153.CloudEvent, 8153.StartWorkflow, 8153.Publish, 8153.Subscribe
// wire: log.endpoint.private, log.endpoint.rails, log.endpoint
t.test('they are UNIMPLEMENTED', async (t) => {
  const { gitlab, portOf } = await startWholeKas(t)
  const sides = [
    ['Agentk API', 'Bearer glagent-prod', ofAgents],
    ['API', `bearer ${await jwt({ key: gitlab.secret })}`, ofGitlab],
  ] as const
  for (const [endpoint, authorization, methods] of sides) {
    const client = connect(t, portOf(endpoint))
    for (const method of methods) {
      const { code } = await callUnary(client, `/${method}`, Buffer.alloc(0), metadataOf({ authorization }))
      t.equal(code, status.UNIMPLEMENTED, method)
    }
  }
  const metrics = await (await fetch(`http://127.0.0.1:${portOf('Observability')}/metrics`)).text()
  const counts = { Provisioner: 5, AutoFlow: 2, EventsPlatform: 2, other: 1 }
  for (const [service, count] of Object.entries(counts))
    t.match(metrics, `kas_gitlab_unserved_calls_total{service="${service}"} ${count}\n`)
  for (const endpoint of ['Kubernetes API', 'Private API', 'Observability']) t.ok(portOf(endpoint) > 0, endpoint)
})
