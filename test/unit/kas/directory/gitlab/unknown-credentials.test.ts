import t from 'tap'
import { SeenHashes } from '../../../../../src/kas/directory/gitlab/seen-hashes.ts'
import {
  FailureBudgets,
  UnknownCredentials,
  type UnknownCredentialsOptions,
} from '../../../../../src/kas/directory/gitlab/unknown-credentials.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { tokenHash } from '../../../../../src/lib/token-hash.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const status = (code: number, told?: string) =>
  new KasError({ code: 'GITLAB_STATUS', status: code, path: '/', ...(told ? { told } : {}) })
const notChecked = () => new KasError({ code: 'CREDENTIAL_NOT_CHECKED' })

function ground(options: UnknownCredentialsOptions = {}) {
  const clock = new ManualClock()
  const unknown = new UnknownCredentials({ clock }, { maxFailures: 3, ...options })
  /** Asks; returns true if the request may wait for a turn. */
  const ask = async (
    secret: string,
    from: string | undefined,
    answer: () => Promise<unknown> | unknown = () => 'ok',
  ) => {
    let might = false
    await unknown
      .check({ secret, from }, async ({ mayWait }) => {
        might = mayWait()
        return await answer()
      })
      .catch(() => undefined)
    return might
  }
  const refuse = (secret: string, from: string | undefined, error = status(401)) =>
    ask(secret, from, () => Promise.reject(error))
  return { clock, unknown, ask, refuse }
}

t.test('an address that was refused too often may not wait, until it is forgiven', async (t) => {
  const { clock, ask, refuse } = ground()
  for (const i of [1, 2, 3]) t.equal(await refuse(`${i}-made-up`, '10.0.0.1'), true)
  t.equal(await ask('glpat-other', '10.0.0.1'), false)
  t.equal(await ask('glpat-other', '10.0.0.2'), true)
  t.equal(await ask('glpat-other', undefined), true)
  for (let i = 0; i < 100; i++) await refuse(`${i}-made-up-still`, '10.0.0.1')
  clock.advance(4000)
  t.equal(await ask('glpat-another', '10.0.0.1'), true, 'however often it was')
})

t.test('a beginning that was refused too often may not wait, wherever it comes from', async (t) => {
  const { ask, refuse } = ground()
  for (const i of [1, 2, 3]) await refuse(`made-up-token-${i}`, `10.0.0.${i}`)
  t.equal(await ask('made-up-token-4', '10.0.0.4'), false)
  t.equal(await ask('made-up-tOken-4', '10.0.0.4'), true)
})

t.test('tokens of jobs that are JWTs begin alike: refusals of some keep no others from waiting', async (t) => {
  for (const prefix of ['', 'glcbt-']) {
    const { ask, refuse } = ground()
    const header = Buffer.from('{"kid":"one","typ":"JWT","alg":"RS256"}').toString('base64url')
    const job = (signature: string) => `${prefix}${header}.eyJpc3MiOiJodHRwczovL2dpdGxhYiJ9.${signature}`
    for (const i of [1, 2, 3, 4]) await refuse(job(`${i}-signature-of-an-old-job`), `10.0.0.${i}`)
    t.equal(await ask(job('signature-of-a-new-job'), '10.0.0.9'), true)
    for (const i of [1, 2, 3]) await refuse(job(`same-begins-${i}`), `10.0.1.${i}`)
    t.equal(await ask(job('same-begins-4'), '10.0.0.9'), false)
  }
})

t.test('good answers make up for refusals', async (t) => {
  const { ask, refuse } = ground()
  for (let i = 0; i < 20; i++) {
    t.equal(await refuse(`${i}-expired-one`, '10.0.0.1'), true)
    t.equal(await ask(`${i}-good-one---`, '10.0.0.1'), true)
  }
})

t.test('what counts as refused: what GitLab says of the credential', async (t) => {
  for (const error of [status(500), status(429), status(401, 'KAS JWT authentication invalid'), notChecked()]) {
    const { ask, refuse } = ground()
    for (let i = 0; i < 9; i++) await refuse(`${i}-whatever-it-is`, '10.0.0.1', error)
    t.equal(await ask('glpat-other', '10.0.0.1'), true, error.message)
  }
  for (const code of [400, 401, 403, 404]) {
    const { ask, refuse } = ground()
    for (let i = 0; i < 9; i++) await refuse(`${i}-whatever-it-is`, '10.0.0.1', status(code))
    t.equal(await ask('glpat-other', '10.0.0.1'), false, String(code))
  }
})

t.test('one that waits may not wait any more once the budget is spent', async (t) => {
  const { unknown, refuse } = ground()
  const { promise, resolve } = Promise.withResolvers<void>()
  let mayStill = (): boolean => true
  const waiting = unknown.check({ secret: 'glpat-waits', from: '10.0.0.1' }, ({ mayWait }) => {
    mayStill = mayWait
    return promise
  })
  t.equal(mayStill(), true)
  for (const i of [1, 2, 3]) await refuse(`${i}-made-up`, '10.0.0.1')
  t.equal(mayStill(), false)
  resolve()
  await waiting
})

t.test('one that was not checked may wait when it comes again, so many at once', async (t) => {
  const { unknown, ask, refuse } = ground({ maxReturning: 2 })
  for (const i of [1, 2, 3]) await refuse(`${i}-made-up`, '10.0.0.1')
  const good = [1, 2, 3].map((i) => `glpat-good-${i}`)
  for (const one of good) t.equal(await refuse(one, '10.0.0.1', notChecked()), false)
  const { promise, resolve } = Promise.withResolvers<void>()
  const might: boolean[] = []
  const asked = good.map((secret) =>
    unknown.check({ secret, from: '10.0.0.1' }, ({ mayWait }) => {
      might.push(mayWait())
      return promise
    }),
  )
  t.strictSame(might, [true, true, false])
  resolve()
  await Promise.all(asked)
  t.equal(await ask(good[2] as string, '10.0.0.1'), true, 'answers made up for refusals')
  t.equal(await ask('glpat-never-seen', '10.0.0.1'), true)
})

t.test('of those that come again, one address has a few, and leaves room to others', async (t) => {
  const { unknown, refuse } = ground({ maxReturning: 3, maxReturningPerAddress: 2 })
  const addresses = ['10.0.0.1', '10.0.0.2']
  for (const from of addresses) for (const i of [1, 2, 3]) await refuse(`${i}-made-up`, from)
  const { promise, resolve } = Promise.withResolvers<void>()
  const might: boolean[] = []
  const asked: Promise<unknown>[] = []
  const askAgain = async (secret: string, from: string) => {
    await refuse(secret, from, notChecked())
    asked.push(
      unknown.check({ secret, from }, ({ mayWait }) => {
        might.push(mayWait())
        return promise
      }),
    )
  }
  for (const i of [1, 2, 3]) await askAgain(`glpat-one-${i}`, '10.0.0.1')
  for (const i of [1, 2]) await askAgain(`glpat-two-${i}`, '10.0.0.2')
  t.strictSame(might, [true, true, false, true, false], 'two of an address, three in all')
  resolve()
  await Promise.all(asked)
})

t.test('an address of IPv6 is its first 64 bits, one of IPv4 is the same in both', async (t) => {
  for (const [one, other, isSame] of [
    ['2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff', true],
    ['2001:db8:1:2::1', '2001:db8:1:3::1', false],
    ['2001:db8::1', '2001:0db8:0:0:9::', true],
    ['::1', '::2', true],
    ['fe80::1%eth0', 'fe80::2%eth0', true],
    ['::ffff:10.0.0.1', '10.0.0.1', true],
    ['::ffff:10.0.0.1', '::ffff:10.0.0.2', false],
    ['', '10.0.0.1', false],
  ] as const) {
    const { ask, refuse } = ground()
    for (const i of [1, 2, 3]) await refuse(`${i}-made-up`, one)
    t.equal(await ask('glpat-other', other), !isSame, `${one} and ${other}`)
  }
})

t.test('sources are bounded: the one that failed least makes room', (t) => {
  const budgets = new FailureBudgets(
    { clock: new ManualClock() },
    { maxFailures: 1, forgivenPerSecond: 1, maxSources: 2 },
  )
  for (const source of ['a', 'b', 'a', 'c']) budgets.failed(source)
  t.strictSame(
    ['a', 'b', 'c'].map((source) => budgets.isSpent(source)),
    [true, false, true],
  )
  t.end()
})

t.test('hashes that were seen are known for a while', (t) => {
  const clock = new ManualClock()
  const seen = new SeenHashes({ clock }, { keptMs: 1000 })
  const hashes = Array.from({ length: 2000 }, (_, i) => tokenHash(`token-${i}`))
  t.equal(seen.has(hashes[0] as string), false)
  for (const hash of hashes.slice(0, 1000)) seen.add(hash)
  const known = () => hashes.filter((hash) => seen.has(hash)).length
  t.equal(known(), 1000)
  clock.advance(1000)
  t.equal(known(), 1000, 'in the older half')
  seen.add(hashes[1500] as string)
  t.equal(known(), 1001)
  clock.advance(1000)
  t.equal(known(), 1)
  clock.advance(2000)
  t.equal(known(), 0)
  t.end()
})
