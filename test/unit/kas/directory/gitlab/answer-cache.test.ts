import t from 'tap'
import {
  AnswerCache,
  type AnswerCacheOptions,
  roughBytes,
} from '../../../../../src/kas/directory/gitlab/answer-cache.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const { signal } = new AbortController()
const refused = new KasError({ code: 'UNAUTHENTICATED' })
const away = new KasError({ code: 'GITLAB_UNREACHABLE', path: '/', detail: 'x', headArrived: false })

function ground(options: Partial<AnswerCacheOptions<string>> = {}) {
  const clock = new ManualClock()
  const cache = new AnswerCache<string>(
    { clock },
    {
      ttlMs: 1000,
      errorTtlMs: 100,
      isRefusal: (error) => error === refused,
      pauseMs: () => 50,
      ...options,
    },
  )
  let asked = 0
  const get = (key: string, result: () => Promise<string> = async () => key) =>
    cache.get(
      key,
      () => {
        asked += 1
        return result()
      },
      signal,
    )
  const fail = (key: string, error: unknown) => get(key, () => Promise.reject(error))
  return { clock, cache, get, fail, asked: () => asked }
}

t.test('the life of an answer begins with the question', async (t) => {
  const { clock, get, asked } = ground()
  await get('a', async () => {
    clock.advance(600)
    return 'slow'
  })
  clock.advance(399)
  t.equal(await get('a'), 'slow')
  clock.advance(1)
  t.equal(await get('a'), 'a')
  t.equal(asked(), 2)
})

t.test('answers of others push out none that is kept', async (t) => {
  const { clock, cache, get, asked } = ground({ maxAnswers: 4 })
  await get('own')
  const from = clock.now()
  t.ok(cache.learn('other 1', 'x', from - 1))
  t.ok(cache.learn('other 2', 'x', from - 1))
  t.notOk(cache.learn('other 3', 'x', from - 1), 'half of the room is for them')
  t.ok(cache.learn('other 1', 'y', from), 'a newer one of the same takes no more')
  t.equal(await get('other 1'), 'y')
  t.equal(await get('own'), 'own')
  t.equal(asked(), 1)
  clock.advance(1000)
  t.ok(cache.learn('other 3', 'z', clock.now()), 'what is over makes room')
  t.equal(await get('other 3'), 'z')
  t.equal(asked(), 1)
  let isOwnKnown = false
  const ask = async (_: AbortSignal, isKnown: boolean) => {
    isOwnKnown = isKnown
    return 'own'
  }
  await cache.get('own', ask, signal)
  t.ok(isOwnKnown, 'one of its own that is over does not')
  t.notOk(cache.learn('other 4', 'z', clock.now() - 1000), 'what is over already')
})

t.test('an answer of others is as old as it is, and gives way to what is newer here', async (t) => {
  const { clock, cache, get, fail, asked } = ground()
  clock.advance(10_000)
  t.ok(cache.learn('a', 'x', clock.now() - 900))
  t.equal(cache.keptMs('a'), 100)
  t.notOk(cache.learn('a', 'older', clock.now() - 901))
  t.equal(await get('a'), 'x')
  clock.advance(100)
  await t.rejects(fail('a', refused), refused)
  t.notOk(cache.learn('a', 'x', clock.now() - 1), 'it was refused since')
  await t.rejects(get('a'), refused)
  clock.advance(1)
  t.ok(cache.learn('a', 'again', clock.now()), 'and answered since that')
  t.equal(await get('a'), 'again')
  t.equal(asked(), 1)
  t.same([...cache.keys()], ['a'])
})

t.test('without a lifetime nothing is kept', async (t) => {
  const { get, fail, asked } = ground({ ttlMs: 0, errorTtlMs: 0 })
  await get('a')
  await get('a')
  await t.rejects(fail('b', refused), refused)
  t.equal(await get('b'), 'b')
  t.equal(asked(), 4)
})

t.test('the longest unused answer makes room, and refusals make none', async (t) => {
  const { get, fail, asked } = ground({ maxAnswers: 3, maxRefusals: 2 })
  for (const key of ['a', 'b', 'c']) await get(key)
  await get('a') // a is used, so b is now unused for the longest time
  for (let i = 0; i < 10; i++) await t.rejects(fail(`made up ${i}`, refused), refused)
  await get('d')
  t.equal(asked(), 14)
  for (const key of ['a', 'c', 'd']) await get(key)
  t.equal(asked(), 14)
  await get('b')
  t.equal(asked(), 15)
})

t.test('only so many questions at once, and half of them about who was never known', async (t) => {
  const { clock, get } = ground({ maxAsking: 4 })
  const answer = Promise.withResolvers<string>()
  const known = ['a', 'b', 'c']
  for (const key of known) await get(key)
  clock.advance(1000)
  const asking = [get('x', () => answer.promise), get('y', () => answer.promise)]
  await t.rejects(get('z'), { code: 'GITLAB_BUSY' })
  asking.push(
    get('a', () => answer.promise),
    get('b', () => answer.promise),
  )
  await t.rejects(get('c'), { code: 'GITLAB_BUSY' }, 'all are taken')
  answer.resolve('answer')
  await Promise.all(asking)
  t.equal(await get('z'), 'z', 'there is room again')
})

t.test('after a failure that is no answer the next question for the key waits a little', async (t) => {
  const { clock, get, fail, asked } = ground()
  await t.rejects(fail('a', away), away)
  const second = get('a')
  const third = get('a')
  await get('b')
  t.equal(asked(), 2, 'another key does not wait')
  clock.advance(49)
  await Promise.resolve()
  t.equal(asked(), 2)
  clock.advance(1)
  t.equal(await second, 'a')
  t.equal(await third, 'a')
  t.equal(asked(), 3)
})

t.test('a refusal ends the life of an answer, and an answer that of a refusal', async (t) => {
  const { clock, get, fail } = ground()
  await get('a')
  clock.advance(1000)
  await t.rejects(fail('a', refused), refused)
  await t.rejects(get('a'), refused)
  clock.advance(100)
  t.equal(await get('a'), 'a')
  t.equal(await get('a'), 'a')
})

t.test('the question ends with the last who wants the answer; who comes after begins anew', async (t) => {
  const { cache } = ground()
  const left = new AbortController()
  let ended: unknown
  const asking = cache.get(
    'a',
    (own) =>
      new Promise((_, reject) => {
        own.addEventListener('abort', () => {
          ended = own.reason
          reject(own.reason)
        })
      }),
    left.signal,
  )
  const reason = new Error('left')
  left.abort(reason)
  await t.rejects(asking, reason)
  t.match(ended, { code: 'CANCELLED' })
  t.equal(await cache.get('a', async () => 'new', signal), 'new')
})

t.test('a clock that was put back makes nothing live longer', async (t) => {
  const { clock, get, fail, asked, cache } = ground()
  await get('a')
  await t.rejects(fail('b', refused), refused)
  await t.rejects(fail('c', away), away)
  t.equal(cache.keptMs('a'), 1000)
  clock.putBack(3_600_000)
  t.equal(cache.keptMs('a'), 0)
  await get('a')
  await get('b')
  await get('c')
  t.equal(asked(), 6)
})

t.test('a key is known while its last answer is remembered, however old that is', async (t) => {
  for (const ttlMs of [1000, 0]) {
    const { clock, cache, fail } = ground({ ttlMs, maxAnswers: 2 })
    const isKnown = (key: string) => cache.get(key, async (_, known) => String(known), signal)
    t.equal(await isKnown('a'), 'false')
    clock.advance(3_600_000)
    t.equal(await isKnown('a'), 'true')
    clock.advance(1000)
    await t.rejects(fail('a', away), away)
    clock.advance(50)
    t.equal(await isKnown('a'), 'true')
    clock.advance(1000)
    await t.rejects(fail('a', refused), refused)
    clock.advance(100)
    t.equal(await isKnown('a'), 'false')
    for (const key of ['b', 'c']) await isKnown(key)
    clock.advance(1000)
    t.equal(await isKnown('a'), 'false', 'others made it forgotten')
  }
})

t.test('answers are bounded by what they take; whose was dropped for it is still known', async (t) => {
  const { cache, get, asked } = ground({ maxBytes: 40_000 })
  const isKnown = (key: string) => cache.get(key, async (_, known) => String(known), signal)
  const large = (key: string) => get(key, async () => key.repeat(2000))
  for (const key of 'abcdefghi') await large(key)
  await get('a')
  t.equal(asked(), 9, 'nine are kept')
  await large('j') // b is unused for the longest time
  for (const key of 'acdefghij') await get(key)
  t.equal(asked(), 10)
  t.equal(await isKnown('b'), 'true')
  for (const key of 'acdefghij') await get(key)
  t.equal(asked(), 10, 'there was room for a small one')
})

t.test('an answer that is asked for anew takes no more, and one that is too large is not kept', async (t) => {
  const { cache, clock, get, fail, asked } = ground({ maxBytes: 40_000 })
  const isKnown = (key: string) => cache.get(key, async (_, known) => String(known), signal)
  await get('a')
  for (let i = 0; i < 20; i++) {
    clock.advance(1000)
    await get('b', async () => 'b'.repeat(2000))
  }
  t.equal(await isKnown('a'), 'true')
  await get('a')
  const before = asked()
  await get('c', async () => 'c'.repeat(10_000))
  await get('c', async () => 'c'.repeat(10_000))
  t.equal(asked(), before + 2)
  await get('a')
  await get('b')
  t.equal(asked(), before + 2, 'it dropped no other')
  await t.rejects(fail('c', refused), refused)
  clock.advance(100)
  t.equal(await isKnown('c'), 'false')
})

t.test('what is larger takes as more, however deep it is', async (t) => {
  const sizes = [1n, 'a'.repeat(10), { a: 'b'.repeat(10) }, [{ id: 1n, groups: ['c'.repeat(20)] }, null]].map(
    roughBytes,
  )
  t.strictSame(
    sizes,
    sizes.toSorted((a, b) => a - b),
  )
  t.equal(new Set(sizes).size, sizes.length)
  t.ok(roughBytes('a'.repeat(1000)) >= 2000)
  t.ok(roughBytes(JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)) > 50_000)
})
