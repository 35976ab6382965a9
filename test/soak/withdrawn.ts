import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { getConfigurationMethod } from '../../src/kas/modules/configuration/configuration.ts'
import { delay } from '../../src/lib/signals.ts'
import { ConfigurationRequestSchema } from '../../src/proto/gen/agent_configuration_pb.ts'
import { encodeHttpResponse, kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { startWholeKas } from '../contract/wire/whole-kas.ts'
import { FakeAgent, type FakeTunnel } from '../support/fake-agent.ts'

/** Time for which a caller without access still gets events, with kas' default lifetimes. */

const access = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }'
/** limit until all open streams end: five minutes and ten seconds; those of callers end in a minute */
const endsMs = 310_000
const callerEndsMs = 60_000
/** lifetimes of answers about callers and about agents, and a second */
const callerMs = 61_000
const agentMs = 301_000
const event = '{"type":"ADDED","object":{}}\n'

/** Answers one watch with one event, and leaves it open. */
async function serveWatch(tunnel: FakeTunnel): Promise<void> {
  for (let message = await tunnel.next(); message; message = await tunnel.next()) {
    if (message.kind === 'requestInfo') tunnel.send(encodeConnectRequest.header({}))
    if (message.kind !== 'closeSend') continue
    const header: [string, string[]][] = [['Content-Type', ['application/json']]]
    tunnel.message(encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header }))
    tunnel.message(encodeHttpResponse.data(Buffer.from(event)))
  }
}

/** Returns the text of the watch, up to its end. */
async function readAll(asked: ClientRequest): Promise<string> {
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  return (await response.toArray()).join('')
}

const openConfiguration = (agent: FakeAgent, token: string) => {
  const metadata = { authorization: [`Bearer ${token}`] }
  const stream = agent.session.open({ method: getConfigurationMethod, metadata })
  void stream.send(toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, { skipRegister: true })))
  return stream
}

t.test('withdrawn', { timeout: endsMs + 60_000 }, async (t) => {
  const { gitlab, portOf } = await startWholeKas(t, access)
  const { world } = gitlab
  for (const [id, name] of [
    [43, 'deleted'],
    [44, 'kept'],
  ] as const) {
    world.agents.push({ id, name, project: 1, tokens: [`glagent-${name}`], configuration: access })
  }
  world.jobs.push({ token: 'job-second', id: 905, pipeline: 95, project: 1, user: 5 })
  const dial = async (token: string) => {
    const agent = await FakeAgent.dial(portOf('Agentk API'), token)
    t.teardown(() => agent.close())
    return { agent, configuration: openConfiguration(agent, token), idle: agent.open() }
  }
  const [revoked, deleted, kept] = [
    await dial('glagent-prod'),
    await dial('glagent-deleted'),
    await dial('glagent-kept'),
  ]
  const ask = (token: string) => {
    const headers = { authorization: `Bearer ${token}` }
    const asked = request({ port: portOf('Kubernetes API'), path: '/api/v1/pods?watch=true', headers })
    asked.end()
    t.teardown(() => asked.destroy())
    return asked
  }
  const watch = async (token: string, { agent }: { agent: FakeAgent }) => {
    const served = serveWatch(agent.open([kubernetesApiMethod]))
    const text = await readAll(ask(token))
    await served
    return text
  }
  const open = {
    'the watch of a job': watch('ci:44:job-clusters', kept),
    'the watch of a user': watch('pat:44:glpat-ada', kept),
    'the watch of a job at the deleted agent': watch('ci:43:job-second', deleted).catch(
      (error: Error) => error.message,
    ),
    'the configuration stream of a revoked token': revoked.configuration.done,
    'the configuration stream of a deleted agent': deleted.configuration.done,
    'the idle tunnel of a revoked token': revoked.idle.done,
  }
  await delay(5000)
  const withdrawnAt = performance.now()
  for (const agent of world.agents) if (agent.id === 42) agent.tokens = []
  world.agents = world.agents.filter(({ id }) => id !== 43)
  for (const job of world.jobs) if (job.token === 'job-clusters') job.isFinished = true
  for (const user of world.users) user.personalAccessTokens = []
  const since = () => performance.now() - withdrawnAt
  const ended = Object.entries(open).map(async ([what, end]) => ({ what, said: await end, ms: since() }))

  await delay(callerMs)
  for (const token of ['ci:44:job-clusters', 'pat:44:glpat-ada']) {
    const [{ statusCode }] = (await once(ask(token), 'response')) as [IncomingMessage]
    t.equal(statusCode, 401, `${token.slice(0, 3)}: a new call after ${(since() / 1000).toFixed()} s`)
  }
  await delay(agentMs - since())
  for (const { agent } of [revoked, deleted]) {
    const error = (await agent.open().done).error
    t.equal(error?.grpcCode, 16, `an agent's new stream after ${(since() / 1000).toFixed()} s`)
  }
  for (const { what, said, ms } of await Promise.all(ended)) {
    const outcome = typeof said === 'string' ? said.trim().split('\n').at(-1) : (said.error?.message ?? 'OK')
    const limitMs = /of a (?:job|user)$/.test(what) ? callerEndsMs : endsMs
    t.ok(ms <= limitMs, `${what}: after ${(ms / 1000).toFixed(1)} s: ${outcome}`)
  }
  const asked = gitlab.calls.filter(({ headers }) => headers['gitlab-agent-api-request'] === 'glagent-kept').length
  t.equal(asked, 1 + Math.floor((since() + 5000) / 300_000), `GitLab was asked ${asked} times about the idle agent`)
})
