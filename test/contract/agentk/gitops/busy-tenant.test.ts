import t from 'tap'
import { maxComparisons } from '../../../../src/agentk/modules/gitops/drift/explain.ts'
import { Phase, type SourceState } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { patience } from '../../../support/slowness.ts'
import { mapOf } from './followed-source.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/**
 * A tenant who writes all objects of a source without end costs others nothing: agentk compares 20 objects a second for
 * all sources, and these take turns. On a real API server, with as many writes as it takes.
 */

/** number of the tenant's objects; the issue asks for 1,000 */
const count = Number(process.env.KAS_BUSY_OBJECTS ?? 100)
const writers = 10
/** wait for all objects: each is applied, or compared, in turn */
const ofMany = { timeoutMs: 20_000 + count * 100 }
/** changes of the other source while the tenant writes */
const changes = 3
const map = (name: string) => keyOf('ConfigMap', name)

t.test(
  'a tenant who writes its objects all the time: changes of others are known in turn',
  { skip, timeout: 120_000 + count * 200 },
  async (t) => {
    const ground = await Ground.start(t)
    for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
    let compared = 0
    const counted: typeof ground.client.json = (...args) => {
      if (args[0] === 'PATCH' && args[1].includes('dryRun=All')) compared += 1
      return ground.client.json(...args)
    }
    const client = new Proxy(ground.client, {
      get: (of, name) => (name === 'json' ? counted : Reflect.get(of, name).bind(of)),
    })
    const names = Array.from({ length: count }, (_, i) => `busy-${i}`)
    const drift = { mode: 'report' } as const
    const files = {
      ...Object.fromEntries(names.map((name) => [`tenant/${name}.json`, mapOf(name)])),
      'other/a.json': mapOf('calm'),
    }
    const block = {
      manifest_projects: ['tenant', 'other'].map((name) => ({
        id: 'platform/shop',
        name,
        paths: [{ glob: `${name}/**` }],
        default_namespace: 'shop',
        drift,
      })),
    }
    const project = new ProjectKas(880n)
    const { stop } = await startGitops(t, ground, project, block, client)
    const becomes = (name: string, is: (state: SourceState) => boolean, options?: { readonly timeoutMs: number }) =>
      eventually(() => {
        const state = project.states.findLast(({ source }) => source === `42-880-${name}`)
        return state !== undefined && is(state) && state
      }, options)
    project.push(files)
    const isSynced = ({ phase, commit }: SourceState) => phase === Phase.SYNCED && commit === project.commit
    for (const name of ['tenant', 'other']) await becomes(name, isSynced, ofMany)

    const writing = new AbortController()
    let written = 0
    const write = async (first: number) => {
      for (let i = first; !writing.signal.aborted; i += writers) {
        const name = names[i % count] as string
        await ground.merge(map(name), { data: { value: `${i}-${first}` } }, 'kubectl-edit')
        written += 1
      }
    }
    const began = performance.now()
    const all = Promise.all(Array.from({ length: writers }, (_, i) => write(i)))
    await becomes('tenant', ({ counts }) => (counts?.drifted ?? 0) > 0)
    const latest: number[] = []
    for (let i = 0; i < changes; i++) {
      for (const value of ['9', '1']) {
        const at = performance.now()
        await ground.merge(map('calm'), { data: { value } }, 'kubectl-edit')
        await becomes('other', ({ drifted }) => drifted.length === Number(value === '9'))
        latest.push(performance.now() - at)
      }
    }
    project.push({ ...files, 'other/b.json': mapOf('calm-too') })
    await becomes('other', isSynced, ofMany) // the tenant has a round of this commit, too
    const seconds = (performance.now() - began) / 1000
    const comparisons = compared
    writing.abort()
    await all
    const longest = Math.max(...latest)
    t.ok(longest < patience(5000), `known after ${Math.round(longest)} ms at most`)
    const most = maxComparisons * 20 * (seconds + 1)
    t.ok(comparisons <= most, `${comparisons} dry runs in ${seconds.toFixed(1)} s`)
    t.comment(
      `${count} objects, ${Math.round(written / seconds)} writes/s; ${comparisons} dry runs in ${seconds.toFixed(1)} s; ` +
        `the other source: ${latest.map((ms) => Math.round(ms)).join(' ')} ms`,
    )
    // in the end each of the tenant's objects is known to differ
    const ofAll = ({ counts }: SourceState) => counts?.drifted === count
    const { drifted } = await becomes('tenant', ofAll, ofMany)
    t.equal(drifted.length, Math.min(count, 100))
    await stop()
  },
)
