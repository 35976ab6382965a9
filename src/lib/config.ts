import { readFile } from 'node:fs/promises'
import { type Document, isMap, isNode, isScalar, LineCounter } from 'yaml'
import * as z from 'zod'
import { KasError } from './errors.ts'
import { fileProblem } from './file-problem.ts'
import { DecisiveKeys, type KeyPath, keyOf, takeUnknownKeys, type UnknownKey } from './unknown-keys.ts'
import { allowedBy } from './validator-words.ts'
import { parseYamlDocument, type YamlLimits } from './yaml-document.ts'

/** An entry of a configuration file without effect, for the log: one line each. */
export interface ConfigWarning {
  /** `unserved`: another program uses the key, and this one does not */
  readonly kind: 'unknown' | 'unused' | 'unserved'
  /** `agent.listen.websocket`, `cluster.discovery.static[0]` */
  readonly key: string
  /** the nearest known name; else the reason why the key has no effect */
  readonly hint?: string
  /** of an unknown key: it was probably meant to grant rights, or to name an address on which a program listens */
  readonly isDecisive?: true
  /** of an unknown key: it has no value */
  readonly isEmpty?: true
}

export interface ParseConfigOptions {
  /** keys that are accepted and removed, each with the reason why it has no effect */
  readonly unused?: Readonly<Record<string, string>>
  /** bounds for a file of a foreign author */
  readonly limits?: YamlLimits
  /** if set, a key that the schema does not know is a problem, not a warning; the values are reasons, by key */
  readonly refused?: Readonly<Record<string, string>>
  /** a misspelt one of these keys has a warning with `isDecisive` */
  readonly decisive?: DecisiveKeys
}

export interface LoadedConfig<T> {
  readonly value: T
  /** the file's content, including keys without effect */
  readonly raw: Readonly<Record<string, unknown>>
  readonly warnings: readonly ConfigWarning[]
}

/** Bound of problems in the report: a foreign author's file may be wrong all over. Further ones are counted. */
const maxProblems = 20
/** Characters of a problem; a longer one is cut. */
const maxProblemCharacters = 300

type Path = KeyPath
type Tree = Record<string, unknown>

/** Returns the milliseconds of a Go duration (`300s`, `5m`, `1h30m`, `1.5s`, `250ms`), or undefined. */
export function parseDuration(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(text)) return undefined
  const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }
  let total = 0
  for (const [, amount, unit] of text.matchAll(/([\d.]+)(h|ms|m|s)/g))
    total += Number(amount) * (units[unit ?? ''] ?? 0)
  return Math.round(total)
}

/** Schema of a duration as Go and proto JSON write it, in milliseconds; `positive` refuses zero. */
export function durationSchema(defaultText: string, options: { positive?: boolean } = {}) {
  const allowed = `a duration${options.positive ? ' above zero' : ''} such as "300s" or "5m"`
  return duration(allowed, (ms) => ms > 0 || !options.positive).prefault(defaultText)
}

/**
 * Schema of a duration within bounds, without a default.
 *
 * @param bounds - durations as in the file, both allowed
 */
export function boundedDurationSchema(bounds: { readonly min: string; readonly max: string }) {
  const [min, max] = [parseDuration(bounds.min) ?? 0, parseDuration(bounds.max) ?? 0]
  return duration(`a duration from ${bounds.min} to ${bounds.max}`, (ms) => ms >= min && ms <= max)
}

function duration(allowed: string, isAllowed: (ms: number) => boolean) {
  return z.string({ error: allowed }).transform((text, context) => {
    const ms = parseDuration(text)
    if (ms !== undefined && isAllowed(ms)) return ms
    context.addIssue({ code: 'custom', message: allowed })
    return z.NEVER
  })
}

/** Schema of a whole number within bounds, also as text, which proto JSON allows. */
export function wholeNumberSchema(defaultValue: number, options: { min: number; max: number }) {
  const error = `a whole number from ${options.min} to ${options.max}`
  const fromText = (value: unknown) => (typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value)
  return z
    .preprocess(fromText, z.int({ error }).min(options.min, { error }).max(options.max, { error }))
    .prefault(defaultValue)
}

/** Schema of a URL of one of `protocols`, such as `https`. */
export function urlSchema(...protocols: string[]) {
  const error = `a URL that begins with ${protocols.map((one) => `${one}://`).join(' or ')}`
  const isUrl = (value: string) => protocols.some((one) => value.startsWith(`${one}://`)) && URL.canParse(value)
  return z.string({ error }).refine(isUrl, { error, abort: true }) // further checks would report the same again
}

/** Schema of a block of keys. An absent block gets the defaults of its keys. */
export function blockSchema<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.object(shape, { error: 'a block of keys' }).prefault({} as never)
}

/**
 * Reads a YAML file and checks it by `schema`. An unknown key is a warning, a wrong value an error. A key without a
 * value counts as absent, as in proto JSON.
 *
 * @throws KasError SETTINGS_INVALID with every problem: file, line, key, found value, allowed values
 */
export async function loadConfig<S extends z.ZodType>(
  file: string,
  schema: S,
  options: ParseConfigOptions = {},
): Promise<LoadedConfig<z.output<S>>> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const problem = `cannot be read: ${fileProblem(error)}`
    throw new KasError({ code: 'SETTINGS_INVALID', file, problems: [problem] }, { cause: error })
  }
  return parseConfig(file, text, schema, options)
}

/** Checks a text as `loadConfig` does; `file` names it in errors. */
export function parseConfig<S extends z.ZodType>(
  file: string,
  text: string,
  schema: S,
  { unused = {}, limits = {}, refused, decisive = DecisiveKeys.none }: ParseConfigOptions = {},
): LoadedConfig<z.output<S>> {
  const { document, lines, raw, tree } = parseTree(file, text, limits)
  const outOfUse = takeOut(tree, unused)
  const unknown = takeUnknownKeys({ raw, tree }, { schema, decisive, passed: new Set(Object.keys(unused)) })
  if (refused && unknown.length > 0) {
    const problems = firstOf(unknown, (one) => {
      const reason = refused[keyOf(one.path)]
      return `${lineAt(lines, keyOffset(document, one.path))}: ${reason ? `${keyOf(one.path)}: ${reason}` : unknownText(one)}`
    })
    throw new KasError({ code: 'SETTINGS_INVALID', file, problems })
  }
  const warnings = [...outOfUse, ...unknown.map(unknownWarning)]
  const where = (path: Path) => {
    const offset = offsetOf(document, path)
    return offset === undefined ? '' : `${lineAt(lines, offset)}: `
  }
  return { value: checked(tree, schema, { file, at: [], where, warnings }), raw, warnings }
}

/**
 * Checks a block that has been parsed already, as `loadConfig` does. The block stands in `file` at `key`. Unknown keys
 * are removed from `tree`.
 *
 * @throws KasError SETTINGS_INVALID with every problem, without lines
 */
export function checkTree<S extends z.ZodType>(
  file: string,
  key: string,
  tree: unknown,
  schema: S,
): Pick<LoadedConfig<z.output<S>>, 'value' | 'warnings'> {
  const warnings = takeUnknownKeys({ raw: tree, tree }, { schema, path: [key] }).map(unknownWarning)
  return { value: checked(tree, schema, { file, at: [key], where: () => '', warnings }), warnings }
}

interface Place {
  readonly file: string
  /** place of the tree in the file */
  readonly at: Path
  /** beginning of an error about a value */
  readonly where: (path: Path) => string
  readonly warnings: readonly ConfigWarning[]
}

function checked<S extends z.ZodType>(tree: unknown, schema: S, { file, at, where, warnings }: Place): z.output<S> {
  const result = schema.safeParse(tree)
  if (result.success) return result.data
  const problems = firstOf(result.error.issues, (issue) => {
    const below = issue.path as Path
    const path = [...at, ...below]
    return `${where(path)}${keyOf(path)}: found ${show(valueAt(tree, below), path)}, allowed: ${allowedBy(issue)}`
  })
  throw new KasError({ code: 'SETTINGS_INVALID', file, problems, hints: unknownKeyHints(warnings) })
}

/** Unknown keys among `warnings`, for an error: a missing key may be there under a wrong name. */
export function unknownKeyHints(warnings: readonly ConfigWarning[]): string[] {
  return warningTexts(warnings.filter(({ kind }) => kind === 'unknown'))
}

/** One sentence for each warning, with the same bound as problems. */
export function warningTexts(warnings: readonly ConfigWarning[]): string[] {
  return firstOf(warnings, warningText)
}

function warningText(warning: ConfigWarning): string {
  return `${warning.key}: ${warningReason(warning)}`
}

/** Text that follows the key. */
export function warningReason({ kind, hint }: Pick<ConfigWarning, 'kind' | 'hint'>): string {
  if (kind !== 'unknown') return `has no effect${hint ? `: ${hint}` : ''}`
  return `this key is not known${hint ? `, did you mean ${hint}?` : ''}`
}

/** @throws KasError SETTINGS_INVALID if the text is no YAML, or no block of keys */
function parseTree(
  file: string,
  text: string,
  limits: YamlLimits,
): { document: Document; lines: LineCounter; raw: Tree; tree: Tree } {
  const lines = new LineCounter()
  const invalid = (problems: string[]) => new KasError({ code: 'SETTINGS_INVALID', file, problems })
  if (text.includes('\0')) throw invalid(['not UTF-8: it has bytes of zero, as UTF-16 has: save it as UTF-8'])
  const { document, faults } = parseYamlDocument(text, lines, limits)
  if (faults.length > 0) {
    throw invalid(firstOf(faults, ({ offset, message }) => `${lineAt(lines, offset)}: not YAML: ${message}`))
  }
  let raw: unknown
  try {
    raw = document.toJS() ?? {}
  } catch (error) {
    throw invalid([`not YAML: ${(error as Error).message}`]) // for example, too many aliases
  }
  if (!isTree(raw)) throw invalid([`found ${show(raw, [])}, allowed: a block of keys`])
  return { document, lines, raw, tree: withoutNulls(raw) as Tree }
}

function lineAt(lines: LineCounter, offset: number): string {
  return `line ${lines.linePos(offset).line}`
}

const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null && !Array.isArray(value)

function firstOf<T>(all: readonly T[], describe: (one: T) => string): string[] {
  const listed = all.slice(0, maxProblems).map((one) => {
    const text = describe(one)
    return text.length > maxProblemCharacters ? `${text.slice(0, maxProblemCharacters)}...` : text
  })
  return all.length > maxProblems ? [...listed, `and ${all.length - maxProblems} more`] : listed
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isTree(value)) return value ?? undefined
  const kept = Object.entries(value).filter(([, child]) => child !== null && child !== undefined)
  return Object.fromEntries(kept.map(([key, child]) => [key, withoutNulls(child)]))
}

/** Removes the keys of `unused` (dotted paths) from `tree`, with a warning for each one found. */
function takeOut(tree: Tree, unused: Readonly<Record<string, string>>): ConfigWarning[] {
  return Object.entries(unused).flatMap(([key, why]): ConfigWarning[] => {
    const path = key.split('.')
    const parent = valueAt(tree, path.slice(0, -1))
    const last = path.at(-1) ?? ''
    if (!isTree(parent) || !(last in parent)) return []
    const value = parent[last]
    delete parent[last]
    return saysNothing(value) ? [] : [{ kind: 'unused', key, hint: why }]
  })
}

/**
 * True for an empty block: packages write `sentry: { dsn: "" }` and `workspaces: { enabled: false }`, which ask for
 * nothing.
 */
function saysNothing(value: unknown): boolean {
  if (isTree(value)) return value.enabled === false || Object.values(value).every(saysNothing)
  return value === '' || value === null || (Array.isArray(value) && value.length === 0)
}

function unknownWarning({ path, ...more }: UnknownKey): ConfigWarning {
  return { kind: 'unknown', key: keyOf(path), ...more }
}

function unknownText(key: UnknownKey): string {
  return warningText(unknownWarning(key))
}

function valueAt(tree: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<string | number, unknown> | undefined)?.[key], tree)
}

/** Offset of the nearest node that exists on the way to `path`. */
function offsetOf(document: Document, path: Path): number | undefined {
  for (let depth = path.length; depth > 0; depth--) {
    const node = document.getIn(path.slice(0, depth), true)
    if (isNode(node) && node.range) return node.range[0]
  }
  return undefined
}

/** Offset of the key itself. */
function keyOffset(document: Document, path: Path): number {
  const parent = path.length > 1 ? document.getIn(path.slice(0, -1), true) : document.contents
  const pair = isMap(parent) ? parent.items.find(({ key }) => isScalar(key) && key.value === path.at(-1)) : undefined
  return (isNode(pair?.key) ? pair.key.range?.[0] : undefined) ?? offsetOf(document, path) ?? 0
}

/** Text of a value for an error: short, and without values that may be secret. */
function show(value: unknown, path: Path): string {
  if (value === undefined) return 'nothing'
  if (isTree(value)) return 'a block of keys'
  if (Array.isArray(value)) return 'a list'
  if (holdsSecret(path)) return 'a value'
  const text = JSON.stringify(value).replaceAll(/\/\/\S*@/g, '//…@') // this part of a URL may have a password
  return text.length > 80 ? `${text.slice(0, 80)}...` : text
}

function holdsSecret(path: Path): boolean {
  const name = path.findLast((key) => typeof key === 'string') ?? ''
  return /secret|password|token|dsn/.test(String(name)) && !String(name).endsWith('_file')
}
