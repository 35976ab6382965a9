import t from 'tap'
import { KnownPushReports } from '../../../src/kas/known-push-reports.ts'
import type { KnownPush } from '../../../src/kas/modules/flux/recent-pushes.ts'
import { KasError } from '../../../src/lib/errors.ts'
import type { InstanceId } from '../../../src/membership/membership.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const settled = () => new Promise(setImmediate)

function start(count: number) {
  const clock = new ManualClock()
  const told: [instance: string, first: bigint | undefined, count: number][] = []
  const world = { failures: 0, count }
  let reached: (instance: InstanceId) => void = () => undefined
  const { log, lines } = capturedLog()
  const reports = new KnownPushReports({
    pushes: {
      known: () =>
        Array.from({ length: world.count }, (_, i): KnownPush => {
          return { projectId: BigInt(i), projectPath: `p/${i}`, id: BigInt(i), ageMs: 0 }
        }),
    },
    replicas: {
      onReached: (listener) => {
        reached = listener
      },
    },
    tell: async (instance, pushes) => {
      if (world.failures-- > 0) throw new KasError({ code: 'UNAUTHENTICATED' })
      told.push([instance, pushes[0]?.id, pushes.length])
    },
    clock,
    log,
  })
  return { clock, told, world, reports, lines, reach: (name: string) => reached(name as InstanceId) }
}

t.test('a replica that comes into reach is told what there is, in parts', async (t) => {
  const { told, reach, reports } = start(2500)
  reach('b')
  await settled()
  await settled()
  t.strictSame(told, [
    ['b', 0n, 1000],
    ['b', 1000n, 1000],
    ['b', 2000n, 500],
  ])
  await reports.stop()
})

t.test('one that refuses is told again, with what there is by then, and not for ever', async (t) => {
  const { told, reach, reports, world, clock, lines } = start(1)
  world.failures = 2
  reach('b')
  await settled()
  world.count = 3
  for (let i = 0; i < 2; i++) {
    t.strictSame(told, [])
    clock.advance(1000)
    await settled()
  }
  t.strictSame(told, [['b', 0n, 3]])
  world.failures = 99
  reach('c')
  for (let i = 0; i < 10; i++) {
    await settled()
    clock.advance(1000)
  }
  t.equal(99 - world.failures, 5)
  t.match(lines, [{ level: 'debug', msg: 'A replica could not be told which pushes there were' }])
  t.equal(clock.pending, 0)
  world.failures = 1
  reach('d')
  await settled()
  t.equal(clock.pending, 1)
  await reports.stop()
  t.equal(clock.pending, 0)
})
