import { once } from 'node:events'
import { request } from 'node:http'
import t, { type Test } from 'tap'
import type { Directory, JobGrant } from '../../../src/kas/directory/directory.ts'
import { noUsage } from '../../../src/kas/directory/usage.ts'
import { KubernetesServer } from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { createRegistry } from '../../../src/lib/metrics.ts'
import { noTracer } from '../../../src/lib/tracing/tracer.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'

/** Who may no longer is ended while its request runs (doc/reference/tunnel-protocol.md 6.3). */

const grant: JobGrant = {
  accessAs: { as: 'ci_job' },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
  job: { id: 900n },
  pipeline: { id: 90n },
  project: { id: 3n, groups: [] },
}
const json: [string, string[]][] = [['Content-Type', ['application/json']]]

async function start(t: Test, cluster: Cluster) {
  const tokens: string[] = []
  const world = { answer: async (): Promise<JobGrant> => grant, tokens, counted: 0 }
  const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob: (_agent, token) => {
      tokens.push(token)
      return world.answer()
    },
    grantUser: () => Promise.reject(new Error('not asked here')),
  }
  const usage = { ...noUsage, counter: () => () => void world.counted++ }
  const { log, lines } = capturedLog()
  const server = new KubernetesServer(
    { forward: clusterForward(cluster), directory, register: createRegistry(), log, usage, tracer: noTracer },
    {
      listen: { host: '127.0.0.1', port: 0 },
      urlPathPrefix: '/',
      listenGraceMs: 0,
      shutdownGraceMs: 0,
      product: 'gitlab-kas/v1.2.3/abc',
      accessCheckMs: 20,
    },
  )
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as { port: number }
  const open = (path: string, headers: Record<string, string> = {}) => {
    const call = request({ port, host: '127.0.0.1', path, headers: { authorization: 'Bearer ci:42:x', ...headers } })
    call.end()
    t.teardown(() => call.destroy())
    return call
  }
  /** after at least one check that found nothing wrong */
  const withdraw = async (error: KasError) => {
    await eventually(() => tokens.length >= 3 || Promise.reject(new Error('not asked again')))
    world.answer = () => Promise.reject(error)
  }
  return { world, open, withdraw, lines }
}

/** Says `first`, then nothing. */
function silentAfter(first: string, header = json): Cluster {
  return async function* () {
    yield head(200, header)
    yield data(first)
    await new Promise(() => undefined)
  }
}

async function read(call: ReturnType<typeof request>) {
  const [response] = await once(call, 'response')
  let text = ''
  let error: Error | undefined
  try {
    for await (const chunk of response) text += chunk
  } catch (caught) {
    error = caught as Error
  }
  return { status: response.statusCode as number, text, error }
}

const finished = () => new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })

// wire: access.again
t.test('a watch ends with an event that says why', async (t) => {
  const event = '{"type":"ADDED","object":{}}\n'
  const { open, withdraw, world, lines } = await start(t, silentAfter(event))
  const answer = read(open('/api/v1/pods?watch=true'))
  await withdraw(finished())
  const { status, text, error } = await answer
  t.equal(status, 200)
  t.equal(error, undefined, 'it ends in order')
  const [first, last, ...more] = text.split('\n').slice(0, -1)
  t.equal(`${first}\n`, event)
  t.match(JSON.parse(last ?? ''), {
    type: 'ERROR',
    object: { kind: 'Status', message: 'GitLab Agent Server: Unauthorized: CI job token', code: 401 },
  })
  t.same(more, [])
  t.equal(world.counted, 2, 'only the request itself is counted')
  t.ok(lines.some(({ level, msg }) => level === 'info' && String(msg).includes('may no longer')))
})

// wire: access.again
t.test('in the middle of an event, of which its client has nothing yet, as well', async (t) => {
  const { open, withdraw } = await start(t, silentAfter('{"type":"ADD'))
  const answer = read(open('/api/v1/pods?watch=true'))
  await withdraw(finished())
  const { text, error } = await answer
  t.equal(error, undefined)
  t.match(JSON.parse(text), { type: 'ERROR', object: { code: 401 } })
})

t.test('a watch whose events cannot be told apart, and all else, is cut', async (t) => {
  const cases = [
    ['/api/v1/pods?watch=true', silentAfter('k8s\0...\n', [['Content-Type', ['application/vnd.kubernetes.protobuf']]])],
    ['/api/v1/namespaces/a/pods/b/log?follow=true', silentAfter('a line\n', [['Content-Type', ['text/plain']]])],
  ] as const
  for (const [path, cluster] of cases) {
    const { open, withdraw } = await start(t, cluster)
    const answer = read(open(path))
    await withdraw(finished())
    const { error } = await answer
    t.equal((error as NodeJS.ErrnoException | undefined)?.code, 'ECONNRESET', path)
  }
})

// wire: access.again
t.test('an upgraded connection is closed', async (t) => {
  const { open, withdraw } = await start(t, async function* () {
    yield head(
      101,
      [
        ['Upgrade', ['SPDY/3.1']],
        ['Connection', ['Upgrade']],
      ],
      'Switching Protocols',
    )
    yield trailer
    await new Promise(() => undefined)
  })
  const call = open('/api/v1/namespaces/a/pods/b/exec', { connection: 'Upgrade', upgrade: 'SPDY/3.1' })
  const [, socket] = await once(call, 'upgrade')
  socket.on('error', () => undefined)
  const closed = once(socket, 'close')
  await withdraw(finished())
  await closed
  t.pass('closed')
})

t.test('before the answer has begun the reason is the answer', async (t) => {
  const { open, withdraw } = await start(t, async function* () {
    await new Promise(() => undefined)
  })
  const answer = read(open('/api/v1/pods'))
  await withdraw(new KasError({ code: 'AGENT_NOT_ALLOWED' }))
  const { status, text } = await answer
  t.equal(status, 403)
  t.match(JSON.parse(text), { message: 'GitLab Agent Server: Forbidden: agentId is not allowed' })
})

t.test('other roles end it, for what runs has those of before', async (t) => {
  const { open, world } = await start(t, silentAfter('{}\n'))
  const answer = read(open('/api/v1/pods?watch=1'))
  await eventually(() => world.tokens.length >= 2 || Promise.reject(new Error('not asked again')))
  world.answer = async () => ({ ...grant, project: { id: 3n, groups: [{ id: 8n }] } })
  t.match((await answer).text, /"message":"GitLab Agent Server: forbidden: the roles of the caller have changed"/)
})

t.test('a directory that is away ends nothing, and a request that ended is not asked about', async (t) => {
  let finish = () => {}
  const { open, world } = await start(t, async function* () {
    yield head(200, json)
    yield data('{}')
    await new Promise<void>((resolve) => {
      finish = resolve
    })
    yield trailer
  })
  const answer = read(open('/api/v1/pods?watch=true'))
  const asked = async (token: string, count: number) => {
    const isAsked = () => world.tokens.filter((one) => one === token).length >= count
    await eventually(() => isAsked() || Promise.reject(new Error('not asked')))
  }
  await asked('x', 2) // the first was let through
  world.answer = () => Promise.reject(new KasError({ code: 'JOB_AGENTS_FAILED' }))
  await asked('x', 6)
  finish()
  t.match(await answer, { status: 200, text: '{}', error: undefined })
  world.tokens.length = 0
  world.answer = async () => grant
  open('/api/v1/pods?watch=true', { authorization: 'Bearer ci:42:other' })
  await asked('other', 5)
  t.notOk(world.tokens.includes('x'))
})
