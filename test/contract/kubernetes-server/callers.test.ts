import t, { type Test } from 'tap'
import type { Caller } from '../../../src/call/caller.ts'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/** The caller whose share of tunnels a request uses, for each kind of credentials (doc/internals/routing.md). */

const ada = { id: 5n, username: 'ada' }
const bob = { id: 6n, username: 'bob' }

/** Knows tokens and cookies `ada-…` and `bob-…`, and jobs `ada-<project>` and `bob-<project>`. */
const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
  async grantJob(_agent, token) {
    const [, user, project = ''] = /^(ada|bob)-(\d+)$/.exec(token) ?? []
    if (!user) throw new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })
    return {
      accessAs: { as: 'agent' },
      configProjectId: 1n,
      user: user === 'ada' ? ada : bob,
      job: { id: 900n },
      pipeline: { id: 90n },
      project: { id: BigInt(project), groups: [] },
    }
  },
  async grantUser(_agent, { key }) {
    const [, user] = /^(ada|bob)-/.exec(key) ?? []
    if (!user) throw new KasError({ code: 'USER_UNAUTHORIZED' })
    return { accessAs: { as: 'agent' }, configProjectId: 1n, user: user === 'ada' ? ada : bob }
  },
}

async function ground(t: Test) {
  const callers: Caller[] = []
  const forward = clusterForward(async function* (request) {
    callers.push(request.call.caller)
    yield* echo(request)
  })
  const { server, port } = await startServer(forward, {}, undefined, { directory })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  /** Returns the caller of a request with these headers. */
  const callerOf = async (...headers: string[]): Promise<Caller> => {
    client.text = ''
    await client.request('GET /k8s-proxy/api', ...headers).until(/^HTTP\/1.1 200 OK\r\n.*\}$/s)
    return callers.at(-1) as Caller
  }
  return { callerOf }
}

const pat = (token: string) => `Authorization: Bearer pat:42:${token}`
const job = (token: string) => `Authorization: Bearer ci:42:${token}`
const session = (cookie: string) => [`Cookie: _gitlab_kas=${cookie}`, 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: c']

t.test('one user by two tokens and a session is one caller', async (t) => {
  const { callerOf } = await ground(t)
  const caller = await callerOf(pat('ada-laptop'))
  t.match(caller, { name: 'user 5', key: /^[\w-]{22}$/ })
  t.equal(caller.userKey, undefined)
  t.same(await callerOf(pat('ada-phone')), caller)
  t.same(await callerOf(...session('ada-browser')), caller)
  t.not((await callerOf(pat('bob-laptop'))).key, caller.key)
})

t.test('Impersonate-User that varies, and what replicas say to one another, make no other caller', async (t) => {
  const { callerOf } = await ground(t)
  const caller = await callerOf(pat('ada-laptop'))
  for (let i = 0; i < 20; i++) {
    const [user, group] = [`Impersonate-User: user-${i}`, `Impersonate-Group: group-${i}`]
    t.same(await callerOf(pat('ada-laptop'), user, group), caller)
  }
  t.same(await callerOf(pat('ada-laptop'), 'Kas-Caller: gitlab', 'Kas-Caller-User: kas'), caller)
})

t.test('one user with jobs in 40 projects: a caller for each, and it is known whose jobs they are', async (t) => {
  const { callerOf } = await ground(t)
  const user = await callerOf(pat('ada-laptop'))
  const callers: Caller[] = []
  for (let project = 1; project <= 40; project++) callers.push(await callerOf(job(`ada-${project}`)))
  t.equal(new Set(callers.map(({ key }) => key)).size, 40)
  t.notOk(callers.some(({ key }) => key === user.key))
  t.same([...new Set(callers.map(({ userKey }) => userKey))], [user.key])
  t.equal(callers[6]?.name, 'project 7')
})

t.test('jobs of one project are one caller, whoever has started them', async (t) => {
  const { callerOf } = await ground(t)
  const [one, another] = [await callerOf(job('ada-7')), await callerOf(job('bob-7'))]
  t.equal(one.key, another.key)
  t.equal(one.userKey, (await callerOf(pat('ada-laptop'))).key)
  t.equal(another.userKey, (await callerOf(pat('bob-laptop'))).key)
})
