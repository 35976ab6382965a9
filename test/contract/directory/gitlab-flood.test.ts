import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { UserGrant } from '../../../src/kas/directory/directory.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'

/** A flood of made-up credentials delays only its sender. Known callers are served, and GitLab gets few requests. */

const { signal } = new AbortController()
const agentId = 42n as AgentId
const configuration = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }'
const pat = (key: string) => ({ type: 'personal_access_token', key }) as const
const stranger = '203.0.113.7'
const front = '10.0.0.1'
/** number of made-up tokens in one flood */
const crowdSize = 1200

interface FloodOptions {
  readonly from?: string
  /** Returns the made-up token `i`. */
  readonly token?: (i: number) => string
}

/** Starts with a GitLab that takes 5 calls a second, and 50 at once: the flood would fill its queue for minutes. */
async function start(t: Test) {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(configuration) })
  const unchecked: string[] = []
  const { directory, lines } = await startGitlabSide(t, gitlab, {
    client: { refillPerSecond: 5, bucketSize: 50 },
    directory: { accessTtlMs: 0, infoTtlMs: 0 }, // each answer is stale at once
    onUnchecked: (kind) => unchecked.push(kind),
  })
  const leaving = new AbortController()
  t.teardown(() => leaving.abort(new KasError({ code: 'CANCELLED' })))
  const flood = (
    ask: (token: string, by: AbortSignal, from: string) => Promise<unknown>,
    options: FloodOptions = {},
  ) => {
    const { from = stranger, token = (i) => `made-up-${i}` } = options
    const codes = new Map<string, number>()
    const all = Array.from({ length: crowdSize }, (_, i) =>
      ask(token(i), leaving.signal, from).then(
        () => undefined,
        (error: KasError) => void codes.set(error.code, (codes.get(error.code) ?? 0) + 1),
      ),
    )
    return { codes, ended: Promise.all(all) }
  }
  const users = (key: string, by: AbortSignal, from: string) => directory.grantUser(agentId, pat(key), by, { from })
  const agents = (token: string, by: AbortSignal, from: string) => directory.agentByToken(token, by, from)
  return { gitlab, directory, lines, flood, users, agents, unchecked }
}

t.test('made-up tokens of users: who was known does not wait for them', async (t) => {
  const { gitlab, flood, users, unchecked } = await start(t)
  await users('glpat-ada', signal, stranger)
  const { codes, ended } = flood(users)
  t.match(await users('glpat-ada', signal, stranger), { user: { id: 5n } } as Partial<UserGrant>)
  await ended
  const notChecked = codes.get('CREDENTIAL_NOT_CHECKED') ?? 0
  t.equal(codes.get('USER_UNAUTHORIZED'), gitlab.calls.length - 2, 'what GitLab was asked, it refused')
  t.ok(gitlab.calls.length < 100, `${gitlab.calls.length} calls`)
  t.ok(notChecked > crowdSize - 100, `${notChecked} were refused at once`)
  t.equal(unchecked.length, notChecked)
  t.equal(new Set(unchecked).size, 1)
})

t.test('made-up tokens of agents: the same', async (t) => {
  const { gitlab, flood, agents, users, unchecked } = await start(t)
  await agents('glagent-prod', signal, stranger)
  const { codes, ended } = flood(agents)
  t.match(await agents('glagent-prod', signal, stranger), { id: 42n })
  t.match(await users('glpat-ada', signal, '198.51.100.1'), { user: { id: 5n } }, 'nor does a new user of elsewhere')
  await ended
  t.ok(gitlab.calls.length < 100, `${gitlab.calls.length} calls`)
  t.ok((codes.get('CREDENTIAL_NOT_CHECKED') ?? 0) > crowdSize - 100)
  t.strictSame([...new Set(unchecked)], ['agents'])
})

t.test('a new one of another address is asked about', async (t) => {
  const { flood, users } = await start(t)
  const { ended } = flood(users)
  await ended
  t.match(await users('glpat-ada', signal, '198.51.100.1'), { user: { id: 5n } })
  await t.rejects(users('glpat-bob', signal, stranger), { code: 'CREDENTIAL_NOT_CHECKED' })
})

t.test('a new one of another address is asked about next, also while a flood fills all places', async (t) => {
  const { gitlab, flood, users } = await start(t)
  flood(users)
  t.match(await users('glpat-ada', signal, '198.51.100.1'), { user: { id: 5n } })
  t.ok(gitlab.calls.length < 50, `${gitlab.calls.length} calls`)
})

t.test('behind one front, tokens made up at random: a new one that comes again is asked about', async (t) => {
  const { gitlab, flood, users } = await start(t)
  const { ended } = flood(users, { from: front, token: (i) => `${(i * 2654435761) % 4294967296}-made-up` })
  await ended
  const before = gitlab.calls.length
  await t.rejects(users('glpat-ada', signal, front), { code: 'CREDENTIAL_NOT_CHECKED' })
  t.equal(gitlab.calls.length, before)
  t.match(await users('glpat-ada', signal, front), { user: { id: 5n } })
})

t.test('tokens that begin alike, of many addresses, are one source', async (t) => {
  const { gitlab, directory, flood } = await start(t)
  let i = 0
  const { codes, ended } = flood(
    (token, by) => directory.grantJob(agentId, token, by, { from: `203.0.${++i >> 8}.${i & 255}` }),
    {
      token: (i) => `glcbt-64_aaa${i}`,
    },
  )
  await ended
  t.ok(gitlab.calls.length < 100, `${gitlab.calls.length} calls`)
  t.ok((codes.get('CREDENTIAL_NOT_CHECKED') ?? 0) > crowdSize - 100)
})

t.test('many new ones that are good wait for their turn, whatever address they come from', async (t) => {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(configuration) })
  const tokens = Array.from({ length: 300 }, (_, i) => `glpat-good-${i}`)
  gitlab.world.users[0]?.personalAccessTokens.push(...tokens)
  const { directory } = await startGitlabSide(t, gitlab, { client: { refillPerSecond: 1000, bucketSize: 50 } })
  const strangers = Array.from({ length: 25 }, (_, i) => `expired-${i}`)
  const ask = (key: string) => directory.grantUser(agentId, pat(key), signal, { from: front })
  const refused = Promise.allSettled(strangers.map(ask))
  const grants = await Promise.all(tokens.map(ask))
  t.equal(grants.length, 300)
  for (const result of await refused) t.match(result, { reason: { code: 'USER_UNAUTHORIZED' } })
})

t.test('the log says nothing of them', async (t) => {
  const { lines, flood, users } = await start(t)
  await flood(users).ended
  t.strictSame(
    lines.filter(({ level }) => level === 'error' || level === 'warn'),
    [],
  )
})
