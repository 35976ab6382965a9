import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import type { NoOffer, Offer } from '../../../../src/call/offer.ts'
import type { Link, OfferRequest } from '../../../../src/kas/peers/link.ts'
import type { Candidate } from '../../../../src/kas/peers/links.ts'
import { createHedges, lostReply, TunnelSearch } from '../../../../src/kas/router/tunnel-search.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import { type Away, KasError } from '../../../../src/lib/errors.ts'
import type { InstanceId } from '../../../../src/membership/membership.ts'
import { callOf } from '../../../support/agents-server.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const options = { findTimeoutMs: 10_000, hedgeMs: 20, unreachableMs: 90, newcomerMs: 250 }
const safe = { safety: 'safe' as const, messages: new KnownMessages([]) }

const over = (held: number, living: number) => ({ held, living, watches: held, retryAfterS: 5 })
/** counts that a replica reports when it refuses */
const overShareAt = (instance: string) => (instance === 'a' ? over(8, 80) : over(480, 500))

/** A replica. The test gives its answers and their time. */
class FakeCandidate implements Candidate {
  readonly instance: InstanceId
  readonly version = 1
  reach: Link['reach'] = 'reachable'
  readonly asked: (OfferRequest & { answer(offer: Offer | NoOffer): void; refuse(): void })[] = []
  givenBack = 0
  readonly #onAsked: (() => void)[] = []

  constructor(name: string) {
    this.instance = name as InstanceId
  }

  get link(): Link {
    return this as unknown as Link
  }

  /** Resolves with the `count`th request for an offer. */
  async isAsked(count = 1): Promise<FakeCandidate['asked'][number]> {
    while (this.asked.length < count) await new Promise<void>((resolve) => this.#onAsked.push(resolve))
    return this.asked[count - 1] as FakeCandidate['asked'][number]
  }

  tunnel(): Offer {
    return { forward: () => lostReply(), giveBack: () => void this.givenBack++ }
  }

  askForTunnel(_: unknown, asked: OfferRequest): Promise<Offer | NoOffer> {
    if (asked.cancellation.isCancelled) return Promise.resolve('none')
    const { promise, resolve, reject } = Promise.withResolvers<Offer | NoOffer>()
    asked.cancellation.onCancel(() => resolve('unanswered'))
    const refuse = () =>
      reject(new KasError({ code: 'CALLER_OVER_SHARE', agentId: '42', ...overShareAt(this.instance) }))
    this.asked.push({ ...asked, answer: resolve, refuse })
    for (const resolveAsked of this.#onAsked.splice(0)) resolveAsked()
    return promise
  }
}

/** Searches among `candidates`, best first, and own tunnels. */
function searchAmong(
  candidates: FakeCandidate[],
  call: Parameters<typeof callOf>[1] = {},
  world: { away?: Away } = {},
) {
  const listeners = new Set<() => void>()
  const own = Promise.withResolvers<Tunnel>()
  const hedges = createHedges()
  const clock = new ManualClock()
  const reachable = (one: FakeCandidate) => (one.reach === 'reachable' ? 0 : 1)
  const search = new TunnelSearch(
    {
      tunnels: {
        wait: (_, signal) => {
          signal.addEventListener('abort', () => own.reject(signal.reason))
          return own.promise
        },
        giveBack: () => undefined,
        holds: () => false,
      },
      links: {
        candidates: () => candidates.toSorted((a, b) => reachable(a) - reachable(b)),
        holds: () => world.away === undefined,
        onChange: (_, listener) => {
          listeners.add(listener)
          return () => listeners.delete(listener)
        },
      },
      away: { find: () => world.away },
      hedges,
      clock,
    },
    callOf([], call),
    options,
  )
  const changed = () => {
    for (const listener of [...listeners]) listener()
  }
  return { running: search.run(), changed, own, hedges, clock }
}

t.test('a suspect is passed by, whatever the call does, and its late offer goes back', async (t) => {
  const [slow, other] = [new FakeCandidate('a'), new FakeCandidate('b')]
  const { running, clock } = searchAmong([slow, other])
  const asked = await slow.isAsked()
  slow.reach = 'suspect'
  clock.advance(options.hedgeMs)
  const second = await other.isAsked()
  t.notOk(asked.cancellation.isCancelled, 'it may still answer first')
  const offer = other.tunnel()
  second.answer(offer)
  asked.answer(slow.tunnel())
  t.equal(await running, offer)
  t.equal(slow.givenBack, 1)
})

t.test('beside a replica that is reachable and slow a safe call asks one more, an unsafe one does not', async (t) => {
  const [slow, other, third] = [new FakeCandidate('a'), new FakeCandidate('b'), new FakeCandidate('c')]
  const { running, clock } = searchAmong([slow, other, third], safe)
  await slow.isAsked()
  clock.advance(options.hedgeMs)
  const second = await other.isAsked()
  clock.advance(3 * options.hedgeMs)
  await nextTurn()
  t.same(third.asked, [], 'once is enough')
  const offer = other.tunnel()
  second.answer(offer)
  t.equal(await running, offer)

  const [patient, unasked] = [new FakeCandidate('a'), new FakeCandidate('b')]
  const unsafe = searchAmong([patient, unasked])
  const first = await patient.isAsked()
  unsafe.clock.advance(3 * options.hedgeMs)
  await nextTurn()
  t.same(unasked.asked, [])
  first.answer(patient.tunnel())
  await unsafe.running
})

t.test('with no further candidate all are asked to wait, the suspect too', async (t) => {
  const [slow, busy] = [new FakeCandidate('a'), new FakeCandidate('b')]
  const { running, clock } = searchAmong([slow, busy])
  const asked = await slow.isAsked()
  slow.reach = 'suspect'
  clock.advance(options.hedgeMs)
  const second = await busy.isAsked()
  second.answer('none')
  await nextTurn()
  clock.advance(options.hedgeMs / 2)
  const [again, waiting] = await Promise.all([slow.isAsked(2), busy.isAsked(2)])
  t.ok(asked.cancellation.isCancelled)
  t.ok(again.waitMs > 0)
  const offer = busy.tunnel()
  waiting.answer(offer)
  t.equal(await running, offer)
})

t.test(
  'a call that waits for its reply may be tried elsewhere if there is another candidate, and a hedge',
  async (t) => {
    const [one, other] = [new FakeCandidate('a'), new FakeCandidate('b')]
    const { running, hedges } = searchAmong([one, other], safe)
    const { tryElsewhere, answer } = await one.isAsked()
    answer(one.tunnel())
    await running
    t.ok(tryElsewhere())
    other.reach = 'suspect'
    t.notOk(tryElsewhere(), 'the other is no better')
    other.reach = 'reachable'
    while (hedges.takeIfThere(1));
    t.notOk(tryElsewhere(), 'all hedges are spent')
  },
)

t.test('an agent whose holders are all out of reach: an error that says so, soon', async (t) => {
  const holder = new FakeCandidate('a')
  const { running, changed, clock } = searchAmong([holder])
  await holder.isAsked()
  holder.reach = 'unreachable'
  changed()
  await nextTurn() // no further request: the search now waits for the holder
  clock.advance(options.unreachableMs - 1)
  t.equal(clock.pending, 2, 'it may be reached again')
  const failed = t.rejects(running, { code: 'HOLDER_UNREACHABLE' })
  clock.advance(1)
  await failed
  t.equal(clock.pending, 0)
})

t.test(
  'an agent that nobody holds, or has no tunnel to spare: an error once the call has waited its time',
  async (t) => {
    const busy = new FakeCandidate('a')
    const { running, clock } = searchAmong([busy])
    const { answer } = await busy.isAsked()
    answer('none')
    const { waitMs } = await busy.isAsked(2)
    t.equal(waitMs, options.findTimeoutMs)
    const failed = t.rejects(running, { code: 'AGENT_SATURATED' })
    clock.advance(options.findTimeoutMs)
    await failed
    t.equal(clock.pending, 0)
  },
)

t.test('one whose answer is lost while the call waits is asked again, soon, then less often', async (t) => {
  const holder = new FakeCandidate('a')
  const { running, clock } = searchAmong([holder])
  let asked = 0
  for (const phase of ['take', 'wait']) {
    const { waitMs, answer } = await holder.isAsked(++asked)
    t.equal(waitMs > 0, phase === 'wait')
    answer('unanswered')
  }
  for (const pauseMs of [50, 100, 200, 400, 800, 1000, 1000]) {
    await nextTurn()
    clock.advance(pauseMs - 1)
    await nextTurn()
    t.equal(holder.asked.length, asked)
    clock.advance(1)
    const again = await holder.isAsked(++asked)
    again.answer('unanswered')
  }
  await nextTurn()
  clock.advance(1000)
  const { waitMs, answer } = await holder.isAsked(++asked)
  t.equal(waitMs, options.findTimeoutMs - 4550)
  const offer = holder.tunnel()
  answer(offer)
  t.equal(await running, offer)
  t.equal(clock.pending, 0)
})

async function useOwn(state: Tunnel['state']) {
  const { running, own } = searchAmong([])
  const tunnel = { state: 'taken' as Tunnel['state'], forward: () => ({ done: 'its own' }) }
  own.resolve(tunnel as unknown as Tunnel)
  const offer = await running
  tunnel.state = state
  return offer.forward(callOf())
}

t.test('a tunnel that is lost before it is used has carried nothing', async (t) => {
  const { error } = await (await useOwn('ended')).done
  t.match(error?.spec, { code: 'TUNNEL_LOST', delivery: 'none' })
  t.match(await useOwn('taken'), { done: 'its own' })
})

/** A search without an idle tunnel at any holder. Two holders promise their next tunnel. */
async function twoWaits() {
  const [one, other] = [new FakeCandidate('a'), new FakeCandidate('b')]
  const { running, clock } = searchAmong([one, other])
  running.catch(() => undefined)
  for (const each of [one, other]) (await each.isAsked()).answer('none')
  const waits = [await one.isAsked(2), await other.isAsked(2)] as const
  return { running, clock, other, waits }
}

t.test('a call that one holder refuses is served by another one', async (t) => {
  const { running, clock, other, waits } = await twoWaits()
  waits[0].refuse()
  await nextTurn()
  clock.advance(1999)
  const offer = other.tunnel()
  waits[1].answer(offer)
  t.equal(await running, offer)
})

t.test('a call that one holder refuses waits for 2 s at the others, and is refused then', async (t) => {
  const { running, clock, waits } = await twoWaits()
  waits[0].refuse()
  await nextTurn()
  clock.advance(2000)
  t.match(await running.catch((error) => error), { spec: { code: 'CALLER_OVER_SHARE', held: 8, living: 80 } })
  t.ok(waits[1].cancellation.isCancelled)
})

t.test('a call that all holders refuse is refused at once', async (t) => {
  const { running, waits } = await twoWaits()
  waits[1].refuse()
  await nextTurn()
  waits[0].refuse()
  t.match(await running.catch((error) => error), { spec: { code: 'CALLER_OVER_SHARE', held: 480, living: 500 } })
})

t.test('nobody waits for an agent that has been away for long, but calls that want its first tunnel', async (t) => {
  const away = { agentId: '42', awayMs: 65_000 }
  const refused = searchAmong([], {}, { away })
  await nextTurn()
  refused.clock.advance(options.newcomerMs)
  const reason = refused.running.catch(({ spec }: KasError) => spec)
  t.strictSame(await reason, { code: 'AGENT_NOT_CONNECTED', waitedMs: options.newcomerMs, ...away })
  const { running, clock } = searchAmong([], { waitsForAway: true }, { away })
  await nextTurn()
  clock.advance(options.findTimeoutMs - 1)
  t.ok(clock.pending > 0, 'it waits')
  clock.advance(1)
  await t.rejects(running, { code: 'AGENT_NOT_CONNECTED' })
})

t.test(
  'an agent that has never been seen may have come a moment ago: what its replica says is waited for',
  async (t) => {
    const world: { away?: Away } = { away: { agentId: '42', awayMs: 65_000 } }
    const candidates: FakeCandidate[] = []
    const { running, clock, changed } = searchAmong(candidates, {}, world)
    await nextTurn()
    clock.advance(options.newcomerMs - 1)
    const holder = new FakeCandidate('a')
    candidates.push(holder)
    delete world.away
    changed()
    const asked = await holder.isAsked()
    clock.advance(options.newcomerMs)
    const offer = holder.tunnel()
    asked.answer(offer)
    t.equal(await running, offer)
  },
)

t.test('a newcomer without a free tunnel is waited for as any agent', async (t) => {
  const world: { away?: Away } = { away: { agentId: '42', awayMs: 65_000 } }
  const { running, clock } = searchAmong([], {}, world)
  await nextTurn()
  delete world.away
  clock.advance(options.findTimeoutMs - 1)
  await nextTurn()
  t.ok(clock.pending > 0, 'it waits')
  clock.advance(1)
  await t.rejects(running, { code: 'AGENT_SATURATED' })
})
