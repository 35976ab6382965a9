import t from 'tap'
import { LeftBehind } from '../../../../src/kas/memory/left-behind.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const MiB = 1024 * 1024
const roundMs = 15_000

/** A process; a garbage collection frees `garbage` bytes. */
async function setUp() {
  const clock = new ManualClock()
  const memory = { bytes: 0 }
  const world = { other: 20 * MiB, garbage: 0, collections: 0, releases: 0 }
  const left = new LeftBehind({
    clock,
    memory,
    allocatedBytes: () => memory.bytes + world.other + world.garbage,
    collect: () => {
      world.collections++
      world.garbage = 0
    },
    release: () => {
      world.releases++
      world.garbage = 0
    },
  })
  await left.start()
  return { clock, memory, world, left }
}

t.test('what has been let go of is collected, what is in use is not', async (t) => {
  const { clock, memory, world, left } = await setUp()
  memory.bytes = 128 * MiB
  clock.advance(roundMs)
  t.equal(world.collections, 0)
  world.garbage = memory.bytes
  memory.bytes = 0
  clock.advance(roundMs - 1)
  t.equal(world.collections, 0)
  clock.advance(1)
  t.equal(world.collections, 1)
  t.equal(world.releases, 0)
  clock.advance(10 * roundMs)
  t.equal(world.collections, 1, 'nothing is left')
  t.equal(world.releases, 1, 'what V8 keeps for the next objects goes back once')
  await left.stop()
  t.equal(clock.pending, 0)
})

t.test('what no collection frees is not collected again and again', async (t) => {
  const { clock, world, left } = await setUp()
  world.other = 120 * MiB // for example configurations
  clock.advance(5 * roundMs)
  t.strictSame([world.collections, world.releases], [1, 1], 'once, and once more')
  world.garbage = 55 * MiB
  clock.advance(roundMs)
  t.equal(world.collections, 1, 'V8 does this by itself: it is less than half of what is there')
  world.garbage = 65 * MiB
  clock.advance(2 * roundMs)
  t.equal(world.collections, 2)
  world.other = 20 * MiB
  clock.advance(roundMs)
  world.garbage = 60 * MiB
  clock.advance(roundMs)
  t.equal(world.collections, 3, 'and what was in use counts no longer')
  await left.stop()
})

t.test(
  'what lingers after its share is free, as connections do that close, is collected with the next round',
  async (t) => {
    const { clock, memory, world, left } = await setUp()
    memory.bytes = 128 * MiB
    clock.advance(roundMs)
    memory.bytes = 0
    world.other += 80 * MiB // connections that are about to close
    clock.advance(roundMs)
    t.equal(world.collections, 1)
    world.other -= 80 * MiB
    world.garbage = 80 * MiB
    clock.advance(roundMs)
    t.strictSame([world.collections, world.releases], [1, 1])
    t.equal(world.garbage, 0)
    clock.advance(10 * roundMs)
    t.strictSame([world.collections, world.releases], [1, 1])
    await left.stop()
  },
)
