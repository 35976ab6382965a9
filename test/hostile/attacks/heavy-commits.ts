import { abortable, delay } from '../../../src/lib/signals.ts'
import { GitPushes } from '../../support/git-pushes.ts'
import { type Attack, over } from '../attack.ts'
import { toldOfSource } from '../mallory.ts'
import { type Stage, sharedOf } from '../stage.ts'

interface Size {
  /** entries of each list: more than a document may have in a small pod */
  readonly entries: number
  readonly kustomizations: number
}

const branches = ['plain', 'kustomize', 'helm'] as const
type Branch = (typeof branches)[number]
/** contents by path; null: the file is removed */
type Files = Readonly<Record<string, string | null>>

interface Form {
  readonly branch: Branch
  /** The files of a round. The problem that kas reports names a line, or a file, of this round alone. */
  files(size: Size, round: number): { files: Files; place: string }
}

const pollMs = 250
let rounds = 0

/** A document that begins in this line. */
const fromLine = (line: number, text: string) => `${'# heavy\n'.repeat(line - 1)}---\n${text}\n`
const schemaPath = (round: number) => `heavy-${round}/values.schema.json`
const listOf = (count: number, entry: string) => `[${Array(count).fill(entry).join(', ')}]`

const forms: Readonly<Record<string, Form>> = {
  kustomizations: {
    branch: 'kustomize',
    files: ({ entries, kustomizations }, round) => {
      const folders = Array.from({ length: kustomizations }, (_, i) => (i === 0 ? '' : `k${i}/`))
      const text = fromLine(round + 1, `resources: ${listOf(entries, 'a')}`)
      const files = Object.fromEntries(folders.map((folder) => [`${folder}kustomization.yaml`, text]))
      return { files, place: `(kustomization.yaml:${round + 1})` }
    },
  },
  chart: {
    branch: 'helm',
    files: ({ entries }, round) => ({
      files: { 'Chart.yaml': fromLine(round + 1, `dependencies: ${listOf(entries / 2, '{ name: a }')}`) },
      place: `(Chart.yaml:${round + 1})`,
    }),
  },
  schema: {
    branch: 'helm',
    files: ({ entries }, round) => {
      const path = schemaPath(round)
      const about = 'apiVersion: v2\nname: mallory\nversion: 1.0.0\n'
      const schema = `{"a": ${listOf(entries / 2, '{}')}}`
      // with the schemas of all rounds the commit would be too large to be sent
      return { files: { 'Chart.yaml': about, [path]: schema, [schemaPath(round - 1)]: null }, place: `(${path}:0)` }
    },
  },
  maps: {
    branch: 'plain',
    files: ({ entries }, round) => {
      const maps = Array.from({ length: entries / 2 }, (_, i) => `{k${i}: 1}`)
      const text = `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: heavy }\ndata: [${maps.join(',')}]`
      return { files: { 'heavy.yaml': fromLine(round + 1, text) }, place: `(heavy.yaml:${round + 1})` }
    },
  },
}

/** Waits until the source reports a refusal at that place. */
async function refusalAt(stage: Stage, branch: Branch, place: string, signal: AbortSignal): Promise<string> {
  let said = ''
  try {
    for (;;) {
      said = await toldOfSource(stage, branch, signal)
      if (said.includes(place)) return said
      await delay(pollMs, signal)
    }
  } catch (cause) {
    throw new Error(`${branch} says "${said}", not ${place}`, { cause })
  }
}

export const heavyCommits: Attack<Size> = {
  name: 'heavy-commits',
  what: 'commits of some megabytes that are small things by the hundred thousand: kustomizations, charts, schemas, manifests',
  refusal: /^(?:.*too many values: more than \d+ in a document[^;]*(?:; |$)){4}$/,
  cluster: true,
  agentkMemory: 'bounded',
  cheap: { entries: 400_000, kustomizations: 1 },
  full: { entries: 480_000, kustomizations: 4 },
  async play(stage, size, signal) {
    const { repository, secretFile, project } = sharedOf(stage)
    const pushes = new GitPushes({ repository, secretFile, project, branches })
    const round = ++rounds
    const said: string[] = []
    try {
      for (const { branch, files: of } of Object.values(forms)) {
        const { files, place } = of(size, round)
        await abortable(pushes.commit(files, branch), signal)
        await abortable(pushes.tell(stage.entry.rails), signal)
        said.push(await refusalAt(stage, branch, place, signal))
      }
    } finally {
      pushes.close()
    }
    return over(said.join('; '))
  },
}
