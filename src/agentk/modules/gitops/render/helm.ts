import { entryAt, textAt } from '../../../../kubernetes/object.ts'
import {
  type ManifestProblem,
  type ObjectTree,
  Problems,
  problemText,
  type RepositoryFile,
} from '../manifests/manifest.ts'
import { readFiles } from '../manifests/read-yaml.ts'
import { marksOf, maxDocuments, type RoundBudget, roundBudget, takeMarks } from '../manifests/round-budget.ts'
import { isSecretObject, shownAnnotation } from '../manifests/secrets.ts'
import type { SourceOptions } from '../source-options.ts'
import { readAsPrograms } from './as-programs.ts'
import type { FileSet } from './file-set.ts'
import { lineAt, renderedName } from './program-output.ts'
import { readValuesSchema } from './values-schema.ts'

export interface ClusterVersion {
  /** `v1.35.4` */
  readonly version: string
  /** `apps/v1`, or `apps/v1/Deployment` */
  readonly apiVersions: readonly string[]
}

type Chart = NonNullable<SourceOptions['helm']>

/** Returns what a chart lacks in the files of the commit: helm must not search for it elsewhere. */
export function helmProblems(
  set: FileSet,
  { chart, values }: Chart,
  budget: RoundBudget = roundBudget(),
): ManifestProblem[] {
  const problems = new Problems()
  const folder = chartFolder(chart)
  const about = inFolder(folder, 'Chart.yaml')
  if (!set.isFile(about)) return [{ file: folder, line: 0, text: 'the folder has no Chart.yaml' }]
  const lists = [about, inFolder(folder, 'requirements.yaml')].flatMap((path) => set.files.get(path) ?? [])
  const { documents, problems: unread } = readAsPrograms(lists, { budget })
  problems.push(...unread)
  const missing = values.filter((path) => !set.isFile(path))
  problems.push(...missing.map((file) => ({ file, line: 0, text: 'the file of values is not in the commit' })))
  const charts = inFolder(folder, 'charts')
  const archives = archivesIn(set, charts)
  for (const { object, file, line } of documents) {
    for (const { name, version } of dependenciesIn(object)) {
      if (problems.isFull) return problems.list()
      if (isIn(set, charts, archives, String(name), String(version))) continue
      problems.push({ file, line, text: `the chart ${String(name).slice(0, 200)} is not vendored in ${charts}` })
    }
  }
  for (const { path, data } of schemas(set, folder)) {
    if (problems.isFull) break
    const schema = Buffer.from(data).toString()
    const text = takeMarks(budget, marksOf(schema)) ?? readValuesSchema(schema).problem
    if (text !== undefined) problems.push({ file: path, line: 0, text })
  }
  return problems.list()
}

/** Paths from which helm reads schemas: of the chart, and of those in `charts`. */
const schemaPath = /^(?:charts\/[^/]+\/)*values\.schema\.json$/

/** Returns the schemas of values: of the chart, and of those in its `charts`. */
function schemas(set: FileSet, folder: string): RepositoryFile[] {
  const files = [...set.files.values()]
  return files.filter(({ path }) => path.startsWith(inFolder(folder, '')) && path.endsWith('values.schema.json'))
}

/** Returns the files that helm reads in place of the commit's. Only for a chart without problems. */
export function helmReplacements(set: FileSet, { chart }: Chart): RepositoryFile[] {
  const folder = inFolder(chartFolder(chart), '')
  // other files of that name belong to the chart, and its templates may read them
  const own = schemas(set, chartFolder(chart)).filter(({ path }) => schemaPath.test(path.slice(folder.length)))
  return own.flatMap(({ path, data }) => {
    const before = Buffer.from(data).toString()
    const { text } = readValuesSchema(before)
    return text === undefined || text === before ? [] : [{ path, data: Buffer.from(text) }]
  })
}

/** True if charts are packed: their schemas cannot be read, so helm must not follow them. */
function hasArchives(set: FileSet, folder: string): boolean {
  return [...set.files.keys()].some((path) => path.startsWith(inFolder(folder, 'charts/')) && /\.t?gz$/.test(path))
}

/** Limit of an archive's name; helm gives a chart's name no more than 250. Characters */
const maxArchiveName = 500

/** Returns the names that charts in archives may have: each part before a dash and a number. */
function archivesIn(set: FileSet, charts: string): ReadonlySet<string> {
  const names = new Set<string>()
  for (const path of set.files.keys()) {
    if (!path.startsWith(`${charts}/`)) continue
    const archive = path.slice(charts.length + 1)
    if (archive.length > maxArchiveName || archive.includes('/') || !archive.endsWith('.tgz')) continue
    for (const { index } of archive.matchAll(/-(?=v?\d)/g)) names.add(archive.slice(0, index))
  }
  return names
}

/** True if the chart is vendored. The version may be a range: any archive of the name will do, and helm checks it. */
function isIn(set: FileSet, charts: string, archives: ReadonlySet<string>, name: string, version: string): boolean {
  if (set.isFile(`${charts}/${name}/Chart.yaml`) || set.isFile(`${charts}/${name}-${version}.tgz`)) return true
  return archives.has(name)
}

function dependenciesIn({ dependencies }: ObjectTree): ObjectTree[] {
  if (!Array.isArray(dependencies)) return []
  return dependencies.filter((item): item is ObjectTree => typeof item === 'object' && item !== null)
}

/** @param hooks - hooks are printed too */
export function helmArguments(
  set: FileSet,
  { chart, values, release }: Chart,
  namespace: string,
  { version, apiVersions }: ClusterVersion,
  hooks = false,
): string[] {
  return [
    'template',
    release,
    `./${chartFolder(chart)}`,
    ...['--namespace', namespace, '--kube-version', version, '--include-crds'],
    ...(hooks ? [] : ['--no-hooks']),
    ...(hasArchives(set, chartFolder(chart)) ? ['--skip-schema-validation'] : []),
    ...apiVersions.flatMap((apiVersion) => ['--api-versions', apiVersion]),
    ...values.flatMap((path) => ['--values', `./${path}`]),
  ]
}

/** True unless it is clear without rendering that the chart has no hooks. */
export function mayHaveHooks(set: FileSet, { chart }: Chart): boolean {
  const folder = chartFolder(chart)
  if (hasArchives(set, folder)) return true
  const root = inFolder(folder, '')
  const isTemplate = (path: string) => path.startsWith(root) && path.slice(root.length).split('/').includes('templates')
  return [...set.files.values()].some(
    ({ path, data }) => isTemplate(path) && Buffer.from(data).includes(hookAnnotation),
  )
}

const hookAnnotation = 'helm.sh/hook'

/**
 * Returns the hooks of a chart in helm's output, by name: `Job shop/migrate (helm.sh/hook: pre-upgrade)`.
 *
 * @param budget - budget that the commit's checks have left
 */
export function hooksIn(output: Uint8Array, chart: Chart, namespace: string, budget: RoundBudget): string[] {
  const files = templateFiles(output, chart)
  if (!files) return [unlistedHooks(`the chart prints more than ${maxDocuments} documents with them`)]
  const { documents, problems } = readFiles(files, { budget })
  const [unread] = problems
  const hooks = documents.flatMap(({ object }) => {
    const value = entryAt(object, 'metadata.annotations', hookAnnotation)
    if (value === '') return []
    const own = textAt(object, 'metadata.namespace') || namespace
    const shown = shownAnnotation(isSecretObject(object), hookAnnotation, value)
    return [`${textAt(object, 'kind')} ${own}/${textAt(object, 'metadata.name')} (${hookAnnotation}: ${shown})`]
  })
  return unread ? [...hooks, unlistedHooks(problemText(unread))] : hooks
}

/** Returns the entry for hooks that cannot be listed. */
export function unlistedHooks(reason: string): string {
  return `what cannot be read of the chart with its hooks (${reason})`
}

/**
 * Splits helm's output into one file for each template; helm's paths begin with the chart's name.
 *
 * @returns undefined: more documents than a commit may have, since files of CRDs may print any number
 */
export function templateFiles(output: Uint8Array, chart: Chart): RepositoryFile[] | undefined {
  const parts = new Map<string, Uint8Array[]>()
  let count = 0
  for (const { path, start, end } of templatesIn(output, chart)) {
    if (++count > maxDocuments) return undefined
    const own = parts.get(path) ?? []
    if (own.length > 0) own.push(Buffer.from('---\n'))
    own.push(output.subarray(start, end))
    parts.set(path, own)
  }
  return [...parts].map(([path, own]) => ({
    path,
    data: own.length === 1 ? (own[0] as Uint8Array) : Buffer.concat(own),
  }))
}

/** Returns a template's file, and the line in it, at an offset of helm's output; of too many, the last one's. */
export function placeInTemplates(output: Uint8Array, offset: number, chart: Chart): { file: string; line: number } {
  let line = 1
  let found: Template | undefined
  const before = new Map<string, number>()
  let count = 0
  for (const template of templatesIn(output, chart)) {
    found = template
    count++
    const { path, start, end } = template
    line = (before.get(path) ?? 0) + lineAt(output, start, Math.min(offset, end))
    if (offset < end || count === maxDocuments) break
    before.set(path, line)
  }
  return found ? { file: found.path, line } : { file: renderedName(chart.chart), line: lineAt(output, 0, offset) }
}

interface Template {
  readonly path: string
  /** range of its bytes in the output */
  readonly start: number
  readonly end: number
}

const separator = '---\n# Source: '

/** Yields each template, from after its `---` to that of the next one. */
function* templatesIn(output: Uint8Array, { chart }: Chart): Generator<Template> {
  const bytes = Buffer.from(output.buffer, output.byteOffset, output.byteLength)
  const isAtLine = (at: number) => at === 0 || bytes[at - 1] === 10
  const next = (from: number) => {
    let at = bytes.indexOf(separator, from)
    while (at > 0 && !isAtLine(at)) at = bytes.indexOf(separator, at + 1)
    return at < 0 ? bytes.length : at
  }
  for (let at = next(0); at < bytes.length; ) {
    const [start, end] = [at + '---\n'.length, next(at + 1)]
    const name = bytes.toString(
      'utf8',
      at + separator.length,
      Math.min(end, bytes.indexOf('\n', at + separator.length)),
    )
    const path = name.slice(name.indexOf('/') + 1)
    if (name.includes('/') && path !== '') yield { path: renderedName(inFolder(chartFolder(chart), path)), start, end }
    at = end
  }
}

/** Returns the place at which helm reports a failed template. */
export function failedTemplate(
  output: string,
  set: Pick<FileSet, 'isFile'>,
  { chart }: Chart,
): { file: string; line: number } | undefined {
  const [, path = ''] = /[^\s/(]+\/((?:charts\/[^/\s]+\/)*templates\/[^:\s]+):/.exec(output) ?? []
  const behind = output.slice(output.indexOf(path) + path.length)
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
