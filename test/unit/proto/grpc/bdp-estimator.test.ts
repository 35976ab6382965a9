import t from 'tap'
import { BdpEstimator } from '../../../../src/proto/grpc/bdp-estimator.ts'
import { settle } from '../../../support/manual-clock.ts'

const MiB = 1024 * 1024
const maxBytes = 16 * MiB

/** A connection; the test answers its PINGs. */
function way() {
  const pings: PromiseWithResolvers<number>[] = []
  let samples = 0
  const ping = () => {
    const answer = Promise.withResolvers<number>()
    pings.push(answer)
    return answer.promise
  }
  const estimator = new BdpEstimator({ ping, onSample: () => samples++ }, maxBytes)
  /** Plays one round trip of `ms` in which each stream's reader takes `taken` bytes. */
  const roundTrip = async (taken: readonly number[], windowBytes: number, ms = 100) => {
    estimator.arrived()
    estimator.took({}, 8 * MiB, windowBytes)
    for (const bytes of taken) {
      const stream = {}
      for (let left = bytes; left > 0; left -= 64 * 1024) estimator.took(stream, Math.min(left, 64 * 1024), windowBytes)
    }
    pings.pop()?.resolve(ms)
    await settle()
  }
  return { estimator, pings, roundTrip, samples: () => samples }
}

t.test('a stream whose reader takes its window in a round trip wants more, up to the most', async (t) => {
  const { estimator, roundTrip } = way()
  await roundTrip([MiB], MiB)
  t.equal(estimator.wantedBytes, 4 * MiB)
  await roundTrip([3 * MiB], 4 * MiB)
  t.equal(estimator.wantedBytes, 16 * MiB)
  await roundTrip([16 * MiB], 16 * MiB)
  t.equal(estimator.wantedBytes, maxBytes)
})

t.test('many readers that are slow want nothing, whatever they take together', async (t) => {
  const { estimator, roundTrip } = way()
  await roundTrip(
    Array.from({ length: 30 }, () => MiB / 4),
    MiB,
  )
  t.equal(estimator.wantedBytes, 0)
})

t.test('a way that is short is filled by any window', async (t) => {
  const { estimator, roundTrip } = way()
  await roundTrip([MiB], MiB, 1)
  t.equal(estimator.wantedBytes, 0)
})

t.test(
  'once its reader is slow, it wants four times what he takes, and a quarter of what it had at least',
  async (t) => {
    const { estimator, roundTrip } = way()
    await roundTrip([MiB], MiB)
    await roundTrip([4 * MiB], 4 * MiB)
    await roundTrip([3 * MiB], 16 * MiB)
    t.equal(estimator.wantedBytes, 12 * MiB)
    await roundTrip([MiB / 4], 12 * MiB)
    t.equal(estimator.wantedBytes, 3 * MiB)
  },
)

t.test('a way that was short once is short: busy programs answer late, and nothing gets wider for it', async (t) => {
  const { estimator, roundTrip } = way()
  await roundTrip([1024], MiB, 0.2)
  await roundTrip([MiB], MiB, 100)
  await roundTrip([4 * MiB], 4 * MiB, 100)
  t.equal(estimator.wantedBytes, 0)
})

t.test('a first sample that was late is forgotten by a short one', async (t) => {
  const { estimator, roundTrip } = way()
  await roundTrip([MiB], MiB, 30)
  t.equal(estimator.wantedBytes, 4 * MiB)
  await roundTrip([4 * MiB], 4 * MiB, 0.2)
  t.equal(estimator.wantedBytes, 0)
})

t.test('answers that fit a window cost no PING but the first; one is on its way at a time', async (t) => {
  const { estimator, pings } = way()
  estimator.arrived()
  for (let i = 0; i < 200; i++) estimator.took({}, 1024, MiB)
  t.equal(pings.length, 1, 'the first tells how far it is')
  pings.pop()?.resolve(100)
  await settle()
  estimator.arrived()
  for (let i = 0; i < 200; i++) estimator.took({}, 1024, MiB)
  t.equal(pings.length, 0)
  for (let i = 0; i < 10_000; i++) estimator.took({}, 1024, MiB)
  t.equal(pings.length, 1)
})

t.test('a peer that answers PINGs at once, or never, gets nothing wider by it', async (t) => {
  const atOnce = way()
  for (let i = 0; i < 20; i++) await atOnce.roundTrip([16 * MiB], MiB, 0)
  t.equal(atOnce.estimator.wantedBytes, 0)
  const never = way()
  never.estimator.arrived()
  for (let i = 0; i < 1000; i++) never.estimator.took({}, MiB, MiB)
  await settle()
  t.equal(never.estimator.wantedBytes, 0)
  t.equal(never.pings.length, 1, 'it is asked once')
})

t.test('a connection that ends inside a round trip samples nothing', async (t) => {
  const { estimator, pings, samples } = way()
  estimator.arrived()
  estimator.took({}, MiB, MiB)
  pings[0]?.reject(new Error('gone'))
  await settle()
  t.equal(samples(), 0)
})

t.test('what came before the last answer, and is taken late, brings no PING: a stock kas would count it', async (t) => {
  const { estimator, pings } = way()
  estimator.arrived()
  estimator.took({}, MiB, MiB)
  t.equal(pings.length, 1)
  estimator.arrived()
  pings[0]?.resolve(100)
  await settle()
  for (let i = 0; i < 100; i++) estimator.took({}, MiB, MiB)
  t.equal(pings.length, 1)
  estimator.arrived()
  estimator.took({}, MiB, MiB)
  t.equal(pings.length, 2)
})
