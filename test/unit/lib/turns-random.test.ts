import t from 'tap'
import { FairQueue, Turns } from '../../../src/lib/turns.ts'
import { settle } from '../../support/manual-clock.ts'
import { Seeded } from '../../support/seeded.ts'

const tooMany = () => new Error('too many wait')
const never = new AbortController().signal
interface Take {
  readonly source: number
  readonly leave: AbortController
  state: 'waiting' | 'running' | 'refused' | 'left' | 'ended'
  end: () => void
}

function start(turns: Turns<number>, source: number, onBegun: (take: Take) => void = () => {}): Take {
  const leave = new AbortController()
  const take: Take = { source, leave, state: 'waiting', end: () => {} }
  turns.take(source, leave.signal).then(
    (end) => {
      take.state = 'running'
      take.end = end
      onBegun(take)
    },
    () => {
      take.state = take.leave.signal.aborted ? 'left' : 'refused'
    },
  )
  return take
}

t.test(
  '1,000 sources come, leave and end: the bounds hold, no turn is lost, and all are there at the end',
  async (t) => {
    const random = Seeded.for(t)
    for (let round = 0; round < 4; round++) {
      const [maxRunning, maxRunningOfSource] = [1 + random.int(40), 1 + random.int(5)]
      const maxWaiting = random.pick([0, 20, 3000])
      const turns = new Turns<number>({ maxRunning, maxRunningOfSource, maxWaiting, tooMany })
      let takes: Take[] = []
      for (let step = 0; step < 1500; step++) {
        for (let many = random.int(5); many > 0; many--)
          takes.push(start(turns, Math.floor(1000 * random.fraction() ** 4))) // some keys come more often
        for (let many = random.int(step < 1000 ? 4 : 9); many > 0 && takes.length > 0; many--) {
          const take = random.pick(takes)
          if (random.chance(0.2)) take.leave.abort(new Error('left'))
          if (take.state !== 'running') continue
          take.state = 'ended'
          take.end()
          take.end()
        }
        await settle()
        takes = takes.filter(({ state }) => state === 'waiting' || state === 'running')
        const running = new Map<number, number>()
        for (const { source, state } of takes)
          if (state === 'running') running.set(source, (running.get(source) ?? 0) + 1)
        const all = takes.filter(({ state }) => state === 'running').length
        const waiting = takes.filter(({ state }) => state === 'waiting')
        const most = Math.max(0, ...running.values())
        if (all > maxRunning || most > maxRunningOfSource || waiting.length > maxWaiting)
          t.fail(`step ${step}: ${all} at once, ${most} of one, ${waiting.length} wait`)
        const asleep = waiting.find(({ source }) => (running.get(source) ?? 0) < maxRunningOfSource)
        if (all < maxRunning && asleep) t.fail(`step ${step}: ${asleep.source} waits for nothing`)
      }
      for (let left = takes; left.length > 0; left = left.filter(({ state }) => state !== 'ended')) {
        for (const take of left.filter(({ state }) => state === 'running')) {
          take.state = 'ended'
          take.end()
        }
        await settle()
      }
      t.ok(
        takes.every(({ state }) => state === 'ended'),
        'each that waited had its turn',
      )
      t.equal(turns.isContended, false)
      const all = Array.from({ length: maxRunning }, (_, source) => start(turns, source))
      await settle()
      t.ok(
        all.every(({ state }) => state === 'running'),
        'all turns are there again',
      )
    }
  },
)

t.test('each of 1,000 sources waits for one turn of each other one, however many some want', async (t) => {
  const random = Seeded.for(t)
  const turns = new Turns<number>({ maxRunning: 1, tooMany })
  let end = await turns.take(-1, never)
  let begun = 0
  /** waiting sources, with the number of waits of each */
  const waiting = new Map<number, number>()
  const late: string[] = []
  let next = Promise.withResolvers<Take>()
  const come = (source: number) => {
    const before = waiting.size
    const [isFirst, since] = [!waiting.has(source), begun]
    waiting.set(source, (waiting.get(source) ?? 0) + 1)
    start(turns, source, (take) => {
      begun++
      const left = (waiting.get(source) as number) - 1
      if (left > 0) waiting.set(source, left)
      else waiting.delete(source)
      if (isFirst && begun - since > before + 1) late.push(`${source} behind ${begun - since} of ${before}`)
      next.resolve(take)
    })
  }
  for (let crowd = 0; crowd < 10; crowd++) for (let i = 0; i < 300; i++) come(crowd)
  for (let source = 0; source < 1000; source++) come(source)
  for (let step = 0; waiting.size > 0; step++) {
    if (step < 3000 && random.chance(0.7)) come(random.int(1000))
    next = Promise.withResolvers()
    end()
    end = (await next.promise).end
  }
  end()
  t.strictSame(late, [])
  t.ok(begun > 5000, `${begun} turns`)
  t.equal(turns.isContended, false)
})

interface Item {
  readonly source: number
  readonly weight: number
}

/** The promised order, done simply: one entry per source, in the order of their turns. */
class PlainQueue {
  readonly sources: { readonly source: number; readonly items: Item[] }[] = []
  readonly #maxSize: number

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get items(): Item[] {
    return this.sources.flatMap(({ items }) => items)
  }

  /** @returns items that lose their place */
  add(item: Item): Item[] {
    const lost: Item[] = []
    while (weightOf(this.items) + item.weight > this.#maxSize) {
      const own = weightOf(this.items.filter(({ source }) => source === item.source))
      const sources = new Set([...this.sources.map(({ source }) => source), item.source]).size
      if (own + item.weight > this.#maxSize / sources) return [...lost, item]
      const most = Math.max(...this.sources.map(({ items }) => weightOf(items)))
      const loser = this.sources.find(({ items }) => weightOf(items) === most)?.items.at(-1) as Item
      this.delete(loser)
      lost.push(loser)
    }
    const own = this.sources.find(({ source }) => source === item.source)
    if (own) own.items.push(item)
    else this.sources.push({ source: item.source, items: [item] })
    return lost
  }

  delete(item: Item): void {
    const at = this.sources.findIndex(({ source }) => source === item.source)
    const items = this.sources[at]?.items ?? []
    if (items.includes(item)) items.splice(items.indexOf(item), 1)
    if (at >= 0 && items.length === 0) this.sources.splice(at, 1)
  }

  take(may: (source: number) => boolean): Item | undefined {
    const at = this.sources.findIndex(({ source }) => may(source))
    const [own] = at < 0 ? [] : this.sources.splice(at, 1)
    const item = own?.items.shift()
    if (own && own.items.length > 0) this.sources.push(own)
    return item
  }
}

const weightOf = (items: readonly Item[]) => items.reduce((sum, { weight }) => sum + weight, 0)

t.test('queue: 1,000 sources with items of any weight get places and turns as promised', async (t) => {
  const random = Seeded.for(t)
  for (const maxSize of [7, 200]) {
    const queue = new FairQueue<Item>(maxSize, ({ weight }) => weight)
    const plain = new PlainQueue(maxSize)
    for (let step = 0; step < 8000; step++) {
      const source = Math.floor(1000 * random.fraction() ** 3)
      const what = random.int(10)
      if (what < 6) {
        const item = { source, weight: 1 + random.int(5) }
        const lost: Item[] = []
        queue.place(item, (loser) => lost.push(loser))
        t.strictSame(lost, plain.add(item))
      } else if (what < 7 && plain.items.length > 0) {
        const item = random.pick(plain.items)
        plain.delete(item)
        if (!queue.delete(item) || queue.delete(item)) t.fail(`step ${step}: an item is there once`)
      } else if (what < 8) {
        const may = (one: number) => one % 3 === step % 3
        if (queue.take(may) !== plain.take(may)) t.fail(`step ${step}: another one's turn`)
      } else if (what < 9) {
        if (queue.takeOf(source) !== plain.take((one) => one === source)) t.fail(`step ${step}: not of ${source}`)
      } else if (queue.take() !== plain.take(() => true)) t.fail(`step ${step}: another one's turn`)
      if (queue.size !== plain.items.length) t.fail(`step ${step}: ${queue.size} items, not ${plain.items.length}`)
    }
    t.strictSame([...queue.items()], plain.items)
    while (queue.take());
    t.equal(queue.size, 0)
    t.equal(queue.hasPlace(0, maxSize), true, 'nothing takes room')
  }
})
