import t from 'tap'
import type { Judgement } from '../../../../../../src/agentk/modules/views/store/judgement.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { type ClusterStep, makeSteps, placeOf, start } from '../../../../../support/views/cluster-world.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'

const worlds = Number(process.env.KAS_WORLDS ?? 100)

t.test(
  'what is judged anew, change by change, is as one would judge it who comes last',
  { timeout: 120_000 },
  async (t) => {
    const first = Number(process.env.KAS_SEED ?? Math.floor(Math.random() * 2 ** 32))
    t.comment(`KAS_SEED=${first}`)
    const rules = await rulesOf([])
    let sick = 0
    for (let seed = first; seed < first + worlds; seed++) {
      const steps = makeSteps(new Seeded(seed), 150)
      const followed = new ClusterStage(start, rules)
      followed.listed()
      for (const [i, step] of steps.entries()) {
        play(followed, step)
        followed.listed() // the step may add kinds
        if (i % 5 === 0) await followed.pass()
      }
      await followed.pass()
      const late = new ClusterStage(start, rules)
      for (const step of steps) if (step.do === 'event') late.event(step.event)
      for (const object of left(steps)) late.put(object)
      late.listed()
      await late.pass()
      const [here, there] = [followed, late].map(said)
      followed.close()
      late.close()
      sick += Object.keys(there ?? {}).length
      if (!t.strictSame(here, there, `KAS_SEED=${seed}`)) return
    }
    t.comment(`${sick} objects that are not well`)
    t.ok(sick > worlds)
  },
)

function play(stage: ClusterStage, step: ClusterStep): void {
  if (step.do === 'put') stage.put(step.object)
  else if (step.do === 'gone') stage.deleted(step.object)
  else stage.event(step.event)
}

function left(steps: readonly ClusterStep[]): Iterable<KubernetesObject> {
  const there = new Map<string, KubernetesObject>()
  for (const step of steps) {
    if (step.do === 'put') there.set(placeOf(step.object), step.object)
    else if (step.do === 'gone') there.delete(placeOf(step.object))
  }
  return there.values()
}

/** Judgements without their times: a stage that begins last knows less about times. */
function said({ records }: ClusterStage): Record<string, unknown> {
  const judged = [...records.all()].flatMap(({ uid }) => {
    const judgement = records.judged(uid)
    return judgement ? [[uid, judgement.map(toSaid)] as const] : []
  })
  return Object.fromEntries(judged.sort(([one], [other]) => (one < other ? -1 : 1)))
}

function toSaid({ word, by, needs, finding }: Judgement[number]) {
  return { word, by, needs, reason: finding?.reason, text: finding?.text, about: finding?.about }
}
