import t, { type Test } from 'tap'
import { followSource } from './followed-source.ts'
import { deployment, Ground, keyOf, skip } from './ground.ts'

/**
 * Calls for the health of many objects whose statuses change all the time, on a real API server. The test writes what
 * controllers would. KAS_HEALTH_OBJECTS: number of Deployments, 200 show more.
 */

const count = Number(process.env.KAS_HEALTH_OBJECTS ?? 20)
const names = Array.from({ length: count }, (_, i) => `web-${i}`)
/** Statuses that a controller writes of one rollout. */
const steps = 12
/** Least time between two reads of one object. ms */
const leastMs = 2000

const manifestOf = (name: string, image: string): string => {
  const template = { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'web', image }] } }
  return JSON.stringify(deployment(name, { replicas: steps, template }))
}
const filesOf = (image: string) => ({ 'all.yaml': names.map((name) => manifestOf(name, image)).join('\n---\n') })

/** Status of a Deployment of which so many Pods are updated and available. */
function statusOf(generation: number, available: number) {
  const isDone = available === steps
  const lastTransitionTime = new Date().toISOString()
  return {
    observedGeneration: generation,
    replicas: steps,
    updatedReplicas: available,
    readyReplicas: available,
    availableReplicas: available,
    ...(!isDone && { unavailableReplicas: steps - available }),
    conditions: [
      { type: 'Available', status: isDone ? 'True' : 'False', reason: 'x', lastTransitionTime },
      { type: 'Progressing', status: 'True', reason: isDone ? 'NewReplicaSetAvailable' : 'x', lastTransitionTime },
    ],
  }
}

/** Records when the API server was asked for each Deployment. */
function recordReads(t: Test, ground: Ground): ReadonlyMap<string, readonly number[]> {
  const reads = new Map<string, number[]>()
  const json = ground.client.json.bind(ground.client)
  t.teardown(() => Object.assign(ground.client, { json }))
  Object.assign(ground.client, {
    json: async (...request: Parameters<typeof json>) => {
      const [method, path] = request
      const [, name] = (method === 'GET' && /\/deployments\/([^/?]+)$/.exec(path)) || []
      if (name !== undefined) reads.set(name, [...(reads.get(name) ?? []), performance.now()])
      return await json(...request)
    },
  })
  return reads
}

t.test('rollouts of many objects cost one read of an object in 2 s at most', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const reads = recordReads(t, ground)
  const source = await followSource(t, ground, filesOf('web:1'), { projectId: 402n })
  for (const generation of [1, 2]) {
    if (generation > 1) {
      source.project.push(filesOf(`web:${generation}`))
      await source.becomesSynced()
    }
    for (let available = 0; available <= steps; available++) {
      for (const name of names) {
        const status = statusOf(generation, available)
        await ground.merge(keyOf('Deployment', name, 'shop', 'apps'), { status }, 'controller', 'status')
      }
    }
    await source.becomes(({ health }) => health?.healthy === count && health.unread === 0)
  }
  const pauses = [...reads.values()].flatMap((times) => times.slice(1).map((time, i) => time - (times[i] as number)))
  const all = [...reads.values()].flat().length
  t.comment(
    `${count} objects, ${2 * count * (steps + 1)} statuses, ${all} reads; least pause ${Math.min(...pauses)} ms`,
  )
  t.ok(all > 0, 'changes are read')
  t.strictSame(
    pauses.filter((ms) => ms < leastMs),
    [],
    'one read of an object in 2 s',
  )
})
