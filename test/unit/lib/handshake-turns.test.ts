import t from 'tap'
import { HandshakeTurns, handshakeShare, maxWaitingHandshakes } from '../../../src/lib/handshake-turns.ts'
import { routedNetworkOf } from '../../../src/lib/host-port.ts'
import { SourceHistory, sourceOf } from '../../../src/lib/source-history.ts'

/** time of the event loop that one handshake takes here, ms */
const costMs = 1

/** An event loop in virtual time. A handshake costs `costMs`; other work takes `otherShare` of the rest. */
class Loop {
  now = 0
  idle = 0
  cpu = 0
  readonly history = new SourceHistory(() => this.now)
  readonly turns: HandshakeTurns
  readonly #otherShare: number
  readonly #preemption: number
  readonly #timers: { readonly at: number; readonly action: () => void }[] = []
  readonly #put: (() => void)[] = []

  /** @param preemption - factor by which all work takes longer, because other programs use the CPU */
  constructor(otherShare = 0, preemption = 1) {
    this.#otherShare = otherShare
    this.#preemption = preemption
    const clock = {
      now: () => this.now,
      after: (ms: number, action: () => void) => {
        this.#timers.push({ at: this.now + ms, action })
        return () => undefined
      },
    }
    const afterwards = (action: () => void) => void this.#put.push(action)
    this.turns = new HandshakeTurns(this.history, {
      clock,
      idleMs: () => this.idle,
      cpuMs: () => this.cpu,
      afterwards,
    })
  }

  /** @returns time at which the handshake began, and whether it lost its place */
  arrive(address: string): { begunAt?: number; isLost?: true; leave: () => void } {
    const seen: { begunAt?: number; isLost?: true; leave: () => void } = { leave: () => undefined }
    const begin = () => {
      seen.begunAt = this.now
      this.now += costMs * this.#preemption
      this.cpu += costMs
    }
    const lost = () => {
      seen.isLost = true
    }
    this.history.ask(routedNetworkOf(address)) // recorded at the connect
    seen.leave = this.turns.enter({ ...sourceOf(address), begin, lost })
    this.#run()
    return seen
  }

  /** Runs the timers that are due until `until`. */
  runTo(until: number): void {
    for (;;) {
      const next = this.#timers.sort((a, b) => a.at - b.at)[0]
      if (!next || next.at > until) break
      this.#timers.shift()
      this.#pass(next.at)
      next.action()
      this.#run()
    }
    this.#pass(until)
  }

  #pass(until: number): void {
    if (until <= this.now) return
    this.idle += (until - this.now) * (1 - this.#otherShare)
    this.cpu += ((until - this.now) * this.#otherShare) / this.#preemption
    this.now = until
  }

  #run(): void {
    for (let action = this.#put.shift(); action; action = this.#put.shift()) action()
  }
}

/** @returns `count` addresses in `networks` IPv4 networks */
function strangers(count: number, networks: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const network = i % networks
    return `10.${network >> 8}.${network & 255}.${Math.floor(i / networks) + 1}`
  })
}

/**
 * Strangers connect at `perSecond`, again and again. Every half second a newcomer connects from a network of its own.
 */
function attacked(networks: number, perSecond: number, { otherShare = 0 } = {}): number[] {
  const loop = new Loop(otherShare)
  const addresses = strangers(3500, networks)
  const newcomers: ReturnType<Loop['arrive']>[] = []
  const cameAt: number[] = []
  for (let i = 0; i < 4 * perSecond; i++) {
    loop.runTo((i * 1000) / perSecond)
    loop.arrive(addresses[i % addresses.length] as string)
    if (i % Math.ceil(perSecond / 2) === 0) {
      cameAt.push(loop.now)
      newcomers.push(loop.arrive(`192.0.${newcomers.length}.7`))
    }
  }
  loop.runTo(loop.now + 10_000)
  return newcomers.map(({ begunAt = Number.POSITIVE_INFINITY }, i) => begunAt - (cameAt[i] as number))
}

for (const networks of [14, 3500]) {
  for (const perSecond of [200, 2500]) {
    for (const otherShare of [0, 1]) {
      const busy = otherShare ? 'a busy loop' : 'an idle loop'
      t.test(`3,500 strangers of ${networks} networks, ${perSecond} a second, ${busy}`, async (t) => {
        const waits = attacked(networks, perSecond, { otherShare }).sort((a, b) => a - b)
        const [median = 0, longest = 0] = [waits[waits.length >> 1], waits.at(-1)]
        t.comment(`newcomers wait ${median.toFixed(0)} ms, ${longest.toFixed(0)} ms at the longest`)
        t.ok(median < 1000, `half of the newcomers wait ${median.toFixed(0)} ms`)
        t.ok(longest < 5000, `and the last one ${longest.toFixed(0)} ms`)
      })
    }
  }
}

t.test('who was let in lately comes first, from the network of the strangers too, and others still come', async (t) => {
  const loop = new Loop(1)
  loop.history.letIn(sourceOf('10.0.0.200'))
  const others = strangers(300, 1).map((address) => loop.arrive(address))
  const known = [loop.arrive('10.0.0.200'), ...Array.from({ length: 100 }, () => loop.arrive('10.0.0.200'))]
  loop.runTo(100)
  t.ok(known[0]?.begunAt !== undefined && known[0].begunAt < 10, `it began after ${known[0]?.begunAt} ms`)
  t.ok(others.filter(({ begunAt }) => begunAt !== undefined).length > 8, 'a share of turns is for the others')
})

t.test('a busy loop keeps its time, an idle one gives it', async (t) => {
  const begun = (otherShare: number) => {
    const loop = new Loop(otherShare)
    const seen = strangers(2000, 50).map((address) => loop.arrive(address))
    loop.runTo(1000)
    return seen.filter(({ begunAt }) => begunAt !== undefined && begunAt < 1000).length * costMs
  }
  const busyMs = begun(1)
  t.ok(busyMs <= 1000 * handshakeShare + 2, `${busyMs} ms of a second`)
  t.ok(begun(0) > 600, `${begun(0)} ms of an idle one`)
})

t.test('on a busy machine handshakes and all else share the CPU time that is left', async (t) => {
  const preemption = 4
  const loop = new Loop(1, preemption)
  const seen = strangers(2000, 50).map((address) => loop.arrive(address))
  loop.runTo(1000)
  const begun = seen.filter(({ begunAt }) => begunAt !== undefined && begunAt < 1000).length
  const allowed = (handshakeShare * 1000) / preemption
  t.ok(begun * costMs <= allowed + 2, `${begun * costMs} ms of CPU time in a second, ${allowed} allowed`)
  t.ok(begun * costMs > 0.8 * allowed, 'not much less')
})

t.test('who leaves takes no turn, and beyond the bound the network with most makes room', async (t) => {
  const loop = new Loop(1)
  const many = strangers(maxWaitingHandshakes / 2 + 1, 20).map((address) => loop.arrive(address))
  const newcomer = loop.arrive('192.0.2.7')
  many.push(loop.arrive('10.0.0.1'))
  t.equal(newcomer.isLost, undefined)
  t.equal(many.filter(({ isLost }) => isLost).length, 2, 'strangers made room')
  const leaving = many.findLast(({ begunAt, isLost }) => begunAt === undefined && !isLost)
  leaving?.leave()
  loop.runTo(60_000)
  t.equal(leaving?.begunAt, undefined)
  t.ok(newcomer.begunAt !== undefined && newcomer.begunAt < 100)
  t.equal(loop.turns.waiting, 0)
})

t.test('a network is a /24 of IPv4 and a /48 of IPv6', async (t) => {
  const networks = ['192.0.2.1', '::ffff:192.0.2.9', '2001:db8:1:2::1', '2001:db8:1:3::1', '2001:db8:2::1'].map(
    routedNetworkOf,
  )
  t.same(networks, ['192.0.2', '192.0.2', '2001:db8:1', '2001:db8:1', '2001:db8:2'])
})
