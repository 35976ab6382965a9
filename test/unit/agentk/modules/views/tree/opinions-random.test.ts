import t from 'tap'
import type { ArgoStatus } from '../../../../../../src/agentk/health/argo/health.ts'
import { finding } from '../../../../../../src/agentk/health/kas/finding.ts'
import type { Judgement } from '../../../../../../src/agentk/modules/views/store/judgement.ts'
import type { ObjectRecord, RecordChange } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { Opinions } from '../../../../../../src/agentk/modules/views/tree/opinions.ts'
import { Owners } from '../../../../../../src/agentk/modules/views/tree/owners.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { kindOf, kinds, recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'
import { seesAll } from '../../../../../support/views/sees-all.ts'

/** Summaries of an object with many children are updated change by change. They equal a full pass over all children. */

const worlds = Number(process.env.KAS_WORLDS ?? 20)
/** more children than kas reads each time */
const children = 100
const job = kindOf('batch/Job', 'jobs')
const cronJob = kindOf('batch/CronJob', 'cronjobs')

const parents = [kinds.deployment, kinds.replicaSet, job, cronJob, kinds.configMap].map((kind, i) => ({
  uid: `parent-${i}`,
  kind,
  name: `parent-${i}`,
}))
const words: readonly ArgoStatus[] = ['Healthy', 'Healthy', 'Healthy', 'Progressing', 'Degraded', 'Suspended']

function judgementOf(word: ArgoStatus): Judgement | undefined {
  if (word === 'Healthy') return undefined
  const found = finding(word, { reason: 'Why', text: 'why', rank: 1 })
  return [{ word, finding: found, by: 'rules', needs: [] }]
}

function childOf(random: Seeded, uid: string): ObjectRecord {
  const kind = random.pick([kinds.pod, kinds.pod, kinds.replicaSet, job])
  const revision = `${random.int(4)}`
  const traits = {
    Pod: { status: { phase: random.pick(['Running', 'Failed']) } },
    'apps/ReplicaSet': { metadata: { annotations: { 'deployment.kubernetes.io/revision': revision } } },
    'batch/Job': { status: { conditions: random.chance(0.5) ? [{ type: 'Failed', status: 'True' }] : [] } },
  }[kind.key]
  const owner = random.chance(0.9)
    ? { owner: random.pick(parents.map(({ kind: of, ...one }) => ({ ...one, kind: of.key }))) }
    : {}
  return recordOf({ uid, kind, traits, created: 1 + random.int(5), ...owner })
}

function parentOf(random: Seeded, { uid, kind }: (typeof parents)[number]): ObjectRecord {
  const type = random.pick(['Failed', 'Complete', 'Suspended'])
  return recordOf({ uid, kind, traits: { status: { conditions: [{ type, status: 'True' }] } }, created: 1 })
}

t.test('of many children, what is kept is as it is', async (t) => {
  const first = Number(process.env.KAS_SEED ?? Math.floor(Math.random() * 2 ** 32))
  let compared = 0
  for (let seed = first; seed < first + worlds; seed++) {
    const random = new Seeded(seed)
    const records = new RecordsDouble()
    const opinions = () =>
      new Opinions({ records, visibility: seesAll, owners: new Owners(records, () => true), sees: () => true })
    const kept = opinions()
    records.onChange((change: RecordChange) => void kept.change(change))
    const uids = Array.from({ length: 5 * children }, (_, i) => `child-${i}`)
    for (const one of parents) records.put(parentOf(random, one))
    for (const uid of uids) records.put(childOf(random, uid), judgementOf(random.chance(0.02) ? 'Degraded' : 'Healthy'))
    for (let step = 0; step < 60; step++) {
      const uid = random.pick(uids)
      const known = records.get(uid)
      const chance = random.int(10)
      if (chance === 0) records.delete(uid)
      else if (chance === 1) records.put(parentOf(random, random.pick(parents)), judgementOf(random.pick(words)))
      else if (chance < 5 && known) records.put(known, judgementOf(random.pick(words)))
      else records.put(childOf(random, uid), judgementOf(random.pick(words)))
      const fresh = opinions()
      for (const parent of parents) {
        const record = records.get(parent.uid) as ObjectRecord
        const [one, other] = [kept.of(record), fresh.of(record)].map(({ word, below }) => `${word} ${below}`)
        compared += other === 'Healthy Healthy' ? 0 : 1
        if (one === other) continue
        t.equal(one, other, `KAS_SEED=${seed}, step ${step}, ${parent.kind.key}`)
        return
      }
    }
  }
  t.ok(compared > worlds, `${compared} that were not well`)
})

t.test('a ReplicaSet that is well goes to another owner: the revision before counts again', async (t) => {
  const records = new RecordsDouble()
  const kept = new Opinions({ records, visibility: seesAll, owners: new Owners(records, () => true), sees: () => true })
  records.onChange((change) => void kept.change(change))
  const [one, other] = ['one', 'other'].map((uid) => recordOf({ uid, kind: kinds.deployment }))
  const set = (uid: string, revision: string) =>
    recordOf({
      uid,
      kind: kinds.replicaSet,
      owner: one,
      traits: { metadata: { annotations: { 'deployment.kubernetes.io/revision': revision } } },
    })
  const newest = set('newest', '2')
  for (const record of [one, other]) records.put(record as ObjectRecord)
  records.put(set('before', '1'), judgementOf('Degraded'))
  records.put(newest)
  t.equal(kept.of(one as ObjectRecord).word, 'Healthy')
  records.put({ ...newest, owner: { uid: 'other', kind: 'apps/Deployment', name: 'other' } })
  t.equal(kept.of(one as ObjectRecord).word, 'Degraded')
})

t.test('what anybody hangs to a Namespace makes it no worse', async (t) => {
  const records = new RecordsDouble()
  const opinions = new Opinions({
    records,
    visibility: seesAll,
    owners: new Owners(records, () => true),
    sees: () => true,
  })
  const of = (key: string) => recordOf({ uid: key, kind: kindOf(key, 'x', false), namespace: '' })
  const [namespace, custom] = ['Namespace', 'example.com/Environment'].map((key) => of(key)) as [
    ObjectRecord,
    ObjectRecord,
  ]
  for (const owner of [namespace, custom]) {
    records.put(owner)
    records.put(recordOf({ uid: `pod-${owner.uid}`, namespace: 'mallory', owner }), judgementOf('Degraded'))
  }
  t.equal(opinions.of(namespace).word, 'Healthy')
  t.equal(opinions.of(custom).word, 'Degraded', 'others own what is in namespaces')
})
