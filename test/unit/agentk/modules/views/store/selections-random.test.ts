import t, { type Test } from 'tap'
import type { LabelSelector } from '../../../../../../src/agentk/modules/views/projection/projector.ts'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'
import { Records } from '../../../../../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../../../../../src/agentk/modules/views/store/rules.ts'
import { type Selection, Selections, type Taker } from '../../../../../../src/agentk/modules/views/store/selections.ts'
import { TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { WorkClock } from '../../../../../support/work-clock.ts'
import { kinds, object } from '../objects.ts'

const options = { maxSelections: 12, maxSelectionsPerUser: 7, maxMembers: 8 }
const namespaces = ['one', 'two', 'three'] as const
const uids = Array.from({ length: 60 }, (_, i) => `u${i + 10}`)
const keys = ['app', 'tier', 'zone'] as const
const values = ['', 'a', 'b', 'c'] as const
const many = Array.from({ length: 600 }, (_, i) => `v${i}`)

/** Each reading takes 2 ms, so the work is cut into many slices. */
class ReadClock extends WorkClock {
  override now(): number {
    this.work(2)
    return super.now()
  }
}

type Labels = ReadonlyMap<string, string>

/** Selects by the rules of Kubernetes. */
function selects({ labels, expressions }: LabelSelector, of: Labels): boolean {
  const isMet = ({ key, operator, values }: LabelSelector['expressions'][number]) => {
    const value = of.get(key)
    if (operator === 'Exists') return value !== undefined
    if (operator === 'DoesNotExist') return value === undefined
    return (value !== undefined && values.includes(value)) === (operator === 'In')
  }
  return labels.every(([key, value]) => of.get(key) === value) && expressions.every(isMet)
}

interface Wanted {
  readonly namespace: string
  readonly selector: LabelSelector
  selection: Selection | undefined
}

/** Uses selections as a view does: relies on a call when its result changes, or when there may be room. */
class ViewModel {
  readonly taker: Taker
  readonly wanted = new Set<Wanted>()
  /** versions at the last call */
  readonly #seen = new Map<Selection, number>()
  #mayBeRoom = false

  constructor(user: string) {
    const onRoom = () => {
      this.#mayBeRoom = true
    }
    this.taker = { user, onChange: () => this.#read(), onRoom }
  }

  add(selections: Selections, namespace: string, selector: LabelSelector): void {
    this.wanted.add({ namespace, selector, selection: selections.take(namespace, selector, this.taker) })
    this.#read()
  }

  delete(selections: Selections, one: Wanted): void {
    this.wanted.delete(one)
    if (one.selection) selections.release(one.selection, this.taker)
  }

  /** Asks again for refused selections if there may be room. */
  askAgain(selections: Selections): void {
    if (!this.#mayBeRoom) return
    this.#mayBeRoom = false
    for (const one of this.wanted) one.selection ??= selections.take(one.namespace, one.selector, this.taker)
    this.#read()
  }

  get isUpToDate(): boolean {
    return [...this.wanted].every(({ selection }) => !selection || this.#seen.get(selection) === selection.version)
  }

  close(selections: Selections): void {
    for (const one of this.wanted) this.delete(selections, one)
    selections.leave(this.taker)
  }

  #read(): void {
    for (const { selection } of this.wanted) if (selection) this.#seen.set(selection, selection.version)
  }
}

class World {
  readonly #random: Seeded
  readonly clock = new ReadClock()
  readonly turns = new TimeSlices(this.clock)
  readonly records = new Records({ clock: this.clock, rules: new Rules([], []), interned: new Interned() })
  readonly selections = new Selections({ records: this.records, turns: this.turns }, options)
  readonly views = new Set<ViewModel>()
  wasCut = 0
  refusals = 0

  constructor(random: Seeded) {
    this.#random = random
    this.records.onChange((change) => this.selections.change(change))
  }

  step(): void {
    const random = this.#random
    const [view] = random.shuffled([...this.views])
    const what = random.int(20)
    if (what < 9) this.#changePod()
    else if (what < 11) this.records.deleted(kinds.pod, random.pick(uids))
    else if (what < 12 && this.views.size < 6)
      this.views.add(new ViewModel(random.pick(['ann', 'bob', 'carl', 'agent'])))
    else if (what < 15) view?.add(this.selections, random.pick(namespaces), this.#selector())
    else if (what < 16) this.#deleteOne(view)
    else if (what < 17 && view && random.chance(0.3)) this.#close(view)
    else if (what < 18) view?.askAgain(this.selections)
    else if (this.turns.size > 0) {
      this.wasCut++
      this.clock.turn()
    }
  }

  /** Runs all waiting work. */
  settle(): void {
    for (let turns = 0; this.turns.size > 0 && turns < 10_000; turns++) this.clock.turn()
    for (const view of this.views) view.askAgain(this.selections)
    if (this.turns.size > 0) this.settle()
  }

  check(t: Test, step: string): boolean {
    for (const view of this.views) {
      if (!t.ok(view.isUpToDate, `${step}: a view was not called`)) return false
      for (const { namespace, selector, selection } of view.wanted) {
        if (!selection) {
          this.refusals++
          const found = this.selections.take(namespace, selector, view.taker)
          if (!t.equal(found, undefined, `${step}: there was room, and nobody was called`)) return false
          continue
        }
        const all = [...this.records.inNamespace('Pod', namespace)].filter(({ labels }) => selects(selector, labels))
        const expected = all.map(({ uid }) => uid).sort()
        const { members } = selection
        const isAll = expected.length <= options.maxMembers / 2
        if (!t.strictSame(members, expected.slice(0, isAll ? expected.length : members.length), step)) return false
        const least = Math.min(expected.length, options.maxMembers / 2)
        if (!t.ok(members.length >= least, `${step}: ${members.length} of ${expected.length}`)) return false
      }
    }
    return true
  }

  closeAll(): void {
    for (const view of [...this.views]) this.#close(view)
    this.settle()
  }

  #close(view: ViewModel): void {
    view.close(this.selections)
    this.views.delete(view)
  }

  #deleteOne(view: ViewModel | undefined): void {
    const [one] = this.#random.shuffled([...(view?.wanted ?? [])])
    if (one) view?.delete(this.selections, one)
  }

  /** Adds or changes a Pod, or puts one with the same name or place as another. */
  #changePod(): void {
    const random = this.#random
    const uid = random.pick(uids)
    const namespace = random.pick(namespaces)
    const name = random.chance(0.1) ? 'same' : uid
    const labels = Object.fromEntries(
      keys.flatMap((key) => (random.chance(0.7) ? [[key, random.pick(values)] as const] : [])),
    )
    const kind = random.chance(0.05) ? kinds.configMap : kinds.pod
    this.records.put(kind, object({ uid, name, namespace, labels, status: { phase: random.pick(['a', 'b']) } }))
  }

  #selector(): LabelSelector {
    const random = this.#random
    return {
      labels: random.list(1, () => [random.pick(keys), random.pick(values)] as const),
      expressions: random.list(2, () => {
        const operator = random.pick(['In', 'NotIn', 'Exists', 'DoesNotExist'])
        const some = random.chance(0.1) ? many : random.shuffled([...values]).slice(0, 2)
        return { key: random.pick(keys), operator, values: operator.endsWith('In') ? some : [] }
      }),
    }
  }
}

t.test('selections that are filled in slices are what their selectors select', { timeout: 60_000 }, async (t) => {
  const random = Seeded.for(t)
  let [cuts, refusals] = [0, 0]
  for (let round = 0; round < 40; round++) {
    const world = new World(random)
    for (let step = 0; step < 400; step++) {
      world.step()
      if (step % 100 !== 99) continue
      world.settle()
      if (!world.check(t, `round ${round}, step ${step}`)) return
    }
    world.closeAll()
    if (!t.ok(world.selections.isEmpty && world.turns.size === 0, `round ${round}: nothing is kept`)) return
    cuts += world.wasCut
    refusals += world.refusals
  }
  t.ok(cuts > 100, `${cuts} turns of the event loop while work waited`)
  t.ok(refusals > 20, `${refusals} were refused`)
})
