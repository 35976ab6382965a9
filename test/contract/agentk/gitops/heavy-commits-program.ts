import { join } from 'node:path'
import { buildCommit } from '../../../../src/agentk/modules/gitops/build/build-commit.ts'
import { ManifestsThread } from '../../../../src/agentk/modules/gitops/build/manifests-thread.ts'
import type { SharedKinds } from '../../../../src/agentk/modules/gitops/live/shared-kinds.ts'
import { podMemory } from '../../../../src/agentk/modules/gitops/render/pod-memory.ts'
import { commitTurns, Renderer } from '../../../../src/agentk/modules/gitops/render/renderer.ts'
import { sourceOptions } from '../../../../src/agentk/modules/gitops/source-options.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { capturedLog } from '../../../support/captured-log.ts'

/** Builds one heavy commit of each form as agentk does in a pod of 512 MiB, before it touches the cluster. */

export const podBytes = 512 * 1024 * 1024

/** Result of one build. */
export interface HeavyResult {
  readonly problems: number
  /** first problem, as a person reads it */
  readonly problem: string
  /** turns of the main thread during the build */
  readonly turns: number
  readonly maxRssBytes: number
}

type Files = Readonly<Record<string, string>>
type Form = { readonly block: SourceBlock; files(): Files }

const byHelm = { helm: { chart: '.', release: 'r' } }
const byKustomize = { kustomize: { path: '.' } }
const many = (count: number, text: string) => Array(count).fill(text).join(', ')

export const forms = {
  'wide kustomizations': {
    block: byKustomize,
    files: () => ({
      'kustomization.yaml': `resources: [b, c, d, ${many(480_000, 'a')}]`,
      ...Object.fromEntries(
        ['b', 'c', 'd'].map((name) => [`${name}/kustomization.yaml`, `resources: [${many(480_000, 'a')}]`]),
      ),
    }),
  },
  'entries that are not there': {
    block: byKustomize,
    files: () => ({ 'kustomization.yaml': `resources: [${many(100_000, 'a')}]` }),
  },
  'wide chart': {
    block: byHelm,
    files: () => ({ 'Chart.yaml': `name: c\ndependencies: [${many(330_000, '{ name: a }')}]` }),
  },
  'wide schema': {
    block: byHelm,
    files: () => ({ 'Chart.yaml': 'name: c', 'values.schema.json': `{ "a": [${many(1_200_000, '{}')}] }` }),
  },
  'lines that differ': { block: byKustomize, files: () => ({ 'kustomization.yaml': 'resources: []' }) },
  'small maps': {
    block: {},
    files: () => {
      const maps = Array.from({ length: 400_000 }, (_, index) => `{k${index}: 1}`)
      return { 'a.yaml': `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndata: [${maps.join(',')}]` }
    },
  },
} satisfies Readonly<Record<string, Form>>

/** @param path - value of PATH, with a script in place of kustomize */
async function play({ block, files }: Form, path: string): Promise<HeavyResult> {
  const memory = podMemory(podBytes)
  const turns = commitTurns(memory.turns)
  const thread = new ManifestsThread(
    { clock: systemClock, turns, log: capturedLog().log },
    { memoryLimitMb: memory.threadMb },
  )
  const renderer = new Renderer({ path, folder: path, podBytes, keepsNetwork: true }, { jobs: thread, turns })
  const options = sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' })
  const kinds = { scopes: new Map([['ConfigMap', true]]), apiVersions: [] }
  const { signal } = new AbortController()
  let mainTurns = 0
  let turning = setImmediate(function turn() {
    mainTurns++
    turning = setImmediate(turn)
  })
  const commit = Object.entries(files()).map(([name, text]) => ({ path: name, data: shared(text) }))
  try {
    const built = await buildCommit(
      {
        kinds: { current: async () => kinds } as unknown as SharedKinds,
        render: (all, { apiVersions }, leave) =>
          renderer.render(all, options, { version: 'v1.35.4', apiVersions }, leave),
        read: (job, leave) => thread.read('shop', { ...job, maxBytes: memory.objectBytes }, leave),
      },
      commit,
      options,
      signal,
    )
    const problems = built.kind === 'refused' ? built.problems : []
    const [first] = problems
    const problem = first ? `${first.file}:${first.line}: ${first.text}` : ''
    const maxRssBytes = process.resourceUsage().maxRSS * 1024
    return { problems: problems.length, problem, turns: mainTurns, maxRssBytes }
  } finally {
    clearImmediate(turning)
    await thread.stop()
  }
}

/** Returns the text as files from kas have it, in shared memory. */
function shared(text: string): Uint8Array {
  const bytes = Buffer.from(text)
  const data = new Uint8Array(new SharedArrayBuffer(bytes.length))
  data.set(bytes)
  return data
}

const [, program = '', name, path = ''] = process.argv
if (program === join(import.meta.dirname, 'heavy-commits-program.ts')) {
  process.stdout.write(JSON.stringify(await play(forms[name as keyof typeof forms], path)))
}
