import type { ManifestProblem, ObjectTree, RepositoryFile } from '../manifests/manifest.ts'
import type { SourceOptions } from '../source-options.ts'
import { readAsPrograms } from './as-programs.ts'
import type { FileSet } from './file-set.ts'
import { readValuesSchema } from './values-schema.ts'

export interface ClusterVersion {
  /** as `v1.35.4` */
  readonly version: string
  /** `apps/v1`, or `apps/v1/Deployment` */
  readonly apiVersions: readonly string[]
}

type Chart = NonNullable<SourceOptions['helm']>

/** What a chart lacks in the files of the commit: helm is not to look for it elsewhere. */
export function helmProblems(set: FileSet, { chart, values }: Chart): ManifestProblem[] {
  const folder = chartFolder(chart)
  const about = inFolder(folder, 'Chart.yaml')
  if (!set.isFile(about)) return [{ file: folder, line: 0, text: 'the folder has no Chart.yaml' }]
  const missing = values.filter((path) => !set.isFile(path))
  const lists = [about, inFolder(folder, 'requirements.yaml')].flatMap((path) => set.files.get(path) ?? [])
  const { documents, problems } = readAsPrograms(lists)
  const unvendored = documents.flatMap(({ object, file, line }) =>
    dependenciesIn(object).flatMap(({ name, version }) => {
      const isVendored = isIn(set, inFolder(folder, 'charts'), String(name), String(version))
      return isVendored
        ? []
        : [{ file, line, text: `the chart ${name} is not vendored in ${inFolder(folder, 'charts')}` }]
    }),
  )
  const text = 'the file of values is not in the commit'
  return [
    ...problems,
    ...missing.map((file) => ({ file, line: 0, text })),
    ...unvendored,
    ...schemas(set, folder).flatMap(({ path, data }) => {
      const { problem } = readValuesSchema(Buffer.from(data).toString())
      return problem === undefined ? [] : [{ file: path, line: 0, text: problem }]
    }),
  ]
}

/** Where helm reads it from: of a chart, and of those in `charts`. */
const schemaPath = /^(?:charts\/[^/]+\/)*values\.schema\.json$/

/** The schemas of values: of the chart, and of those in its `charts`. */
function schemas(set: FileSet, folder: string): RepositoryFile[] {
  const files = [...set.files.values()]
  return files.filter(({ path }) => path.startsWith(inFolder(folder, '')) && path.endsWith('values.schema.json'))
}

/** What helm is to read in place of files of the commit; of those without a problem. */
export function helmReplacements(set: FileSet, { chart }: Chart): RepositoryFile[] {
  const folder = inFolder(chartFolder(chart), '')
  // others by that name are files of the chart, which its templates may read
  const own = schemas(set, chartFolder(chart)).filter(({ path }) => schemaPath.test(path.slice(folder.length)))
  return own.flatMap(({ path, data }) => {
    const before = Buffer.from(data).toString()
    const { text } = readValuesSchema(before)
    return text === undefined || text === before ? [] : [{ path, data: Buffer.from(text) }]
  })
}

/** What is packed cannot be looked into: helm is not to follow its schemas. */
function hasArchives(set: FileSet, folder: string): boolean {
  return [...set.files.keys()].some((path) => path.startsWith(inFolder(folder, 'charts/')) && /\.t?gz$/.test(path))
}

/** The version of a dependency may be a range: any archive of the chart's name will do, helm checks it. */
function isIn(set: FileSet, charts: string, name: string, version: string): boolean {
  if (set.isFile(`${charts}/${name}/Chart.yaml`) || set.isFile(`${charts}/${name}-${version}.tgz`)) return true
  const prefix = `${charts}/${name}-`
  return [...set.files.keys()].some(
    (path) => path.startsWith(prefix) && /^v?\d[^/]*\.tgz$/.test(path.slice(prefix.length)),
  )
}

function dependenciesIn({ dependencies }: ObjectTree): ObjectTree[] {
  if (!Array.isArray(dependencies)) return []
  return dependencies.filter((item): item is ObjectTree => typeof item === 'object' && item !== null)
}

export function helmArguments(
  set: FileSet,
  { chart, values, release }: Chart,
  namespace: string,
  { version, apiVersions }: ClusterVersion,
): string[] {
  return [
    'template',
    release,
    `./${chartFolder(chart)}`,
    ...['--namespace', namespace, '--kube-version', version, '--include-crds', '--no-hooks'],
    ...(hasArchives(set, chartFolder(chart)) ? ['--skip-schema-validation'] : []),
    ...apiVersions.flatMap((apiVersion) => ['--api-versions', apiVersion]),
    ...values.flatMap((path) => ['--values', `./${path}`]),
  ]
}

/** Hooks are not run: who relies on them is told where they are. */
export function helmNotes(set: FileSet, { chart }: Chart): string[] {
  const root = inFolder(chartFolder(chart), '')
  const isTemplate = (path: string) => path.startsWith(root) && path.slice(root.length).split('/').includes('templates')
  const files = [...set.files.values()].filter(({ path }) => isTemplate(path))
  const hooks = files.filter(({ data }) => /helm\.sh\/hook["']?\s*:/.test(Buffer.from(data).toString()))
  return hooks.map(({ path }) => `${path}: hooks of helm are left out`)
}

/** What helm prints of one template after another, as files of their own; its paths begin with the chart's name. */
export function templateFiles(output: Buffer, { chart }: Chart): RepositoryFile[] {
  const parts = new Map<string, string[]>()
  for (const part of output.toString().split(/^---\n(?=# Source: )/m)) {
    const [, path] = /^# Source: [^/\n]+\/(.+)$/m.exec(part) ?? []
    if (path === undefined) continue
    const texts = parts.get(path) ?? []
    texts.push(part)
    parts.set(path, texts)
  }
  return [...parts].map(([path, texts]) => ({
    path: `${inFolder(chartFolder(chart), path)} (rendered)`,
    data: Buffer.from(texts.join('---\n')),
  }))
}

/** Where helm says that a template failed. */
export function failedTemplate(
  said: string,
  set: FileSet,
  { chart }: Chart,
): { file: string; line: number } | undefined {
  const [, path = ''] = /[^\s/(]+\/((?:charts\/[^/\s]+\/)*templates\/[^:\s]+):/.exec(said) ?? []
  const behind = said.slice(said.indexOf(path) + path.length)
  const [, line = '0'] = /^:(\d+)/.exec(behind) ?? /\bline (\d+)/.exec(behind) ?? []
  const file = inFolder(chartFolder(chart), path)
  return path && set.isFile(file) ? { file, line: Number(line) } : undefined
}

function chartFolder(chart: string): string {
  return chart.replace(/^(?:\.\/)+/, '').replace(/\/+$/, '') || '.'
}

function inFolder(folder: string, name: string): string {
  return folder === '.' ? name : `${folder}/${name}`
}
