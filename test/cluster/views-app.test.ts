import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { ReportRequestSchema, ReportResponseSchema } from '../../src/proto/gen/views_pb.ts'
import { ViewsClient } from '../contract/kubernetes-server/views-client.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { GitRepository } from '../support/git-repository.ts'
import { ViewsAgent } from '../support/views-agent.ts'
import { agentToken, startKasApps } from './kas-apps.ts'

/** Whole replicas: what an agent's views show, from its project's file to who looks at them. */

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

t.test('views.yaml reaches the pod that leads; its views reach who may see them, by any replica', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'kas-views-')) // t.testdir's is that of the replicas
  t.teardown(() => rm(home, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await GitRepository.create(home, 'clusters')
  const folder = '.gitlab/agents/prod'
  await repository.push(`${folder}/views.yaml`, 'verdict: kstatus\n')
  await repository.push(
    `${folder}/config.yaml`,
    'user_access: { access_as: { user: {} }, projects: [{ id: platform/clusters }] }\n',
  )
  const [holder, entry] = await startKasApps(t, 2, {
    project: `, git: { url: ${repository.path} }`,
    directory: `users: [{ id: 5, username: ada, tokens: [{ sha256: "${sha256('ada-token')}" }], roles: { projects: { 1: [developer] } } }]`,
    agent: '  kubernetes_api: { url_path_prefix: /k8s/, listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }',
  })
  if (!holder || !entry) throw new Error('two were started')
  const pod = await ViewsAgent.start(holder.port('Agentk API'), 'pod-a', undefined, agentToken)
  t.teardown(() => pod.close())

  const authorization = [`Bearer ${agentToken}`]
  const report = pod.agent.session.open({ method: '/agentk.views.v1.Reports/Report', metadata: { authorization } })
  const facts = { podName: 'pod-a', kubernetesVersion: 'v1.35.0', kinds: 3, objects: 9, state: 'live' }
  void report.send(toBinary(ReportRequestSchema, create(ReportRequestSchema, { facts })))
  const responses = report.messages[Symbol.asyncIterator]()
  const first = fromBinary(ReportResponseSchema, (await responses.next()).value as Uint8Array)
  t.equal(String(Buffer.from(first.what.value?.block ?? [])), '{"verdict":"kstatus"}')
  await eventually(async () => {
    const { modules } = (await askSocket(holder.socket, '/status')) as StatusReport
    if (!JSON.stringify(modules).includes('["objects",9]')) throw new Error('its facts have not come')
  })

  const headers = { Authorization: 'Bearer pat:42:ada-token' }
  const port = entry.port('Kubernetes API')
  const client = await ViewsClient.open(t, port, { path: '/k8s/views', headers })
  client.view(1)
  t.match(await client.next(), { type: 'update', id: 1, update: { seq: 1, from: 'pod-a' } })
  const response = await fetch(`http://127.0.0.1:${port}/k8s/views?view=list`, { headers })
  t.match(await response.json(), { seq: 1, from: 'pod-a' })
  t.equal((await fetch(`http://127.0.0.1:${port}/k8s/views`)).status, 401)

  await repository.push(`${folder}/views.yaml`, 'verdict: best\n')
  const second = fromBinary(ReportResponseSchema, (await responses.next()).value as Uint8Array)
  t.match(second.what.value?.problem, /views.yaml: line 1: verdict: found "best"/)
  t.equal(String(Buffer.from(second.what.value?.block ?? [])), '{"verdict":"kstatus"}', 'the last good one stays')
})
