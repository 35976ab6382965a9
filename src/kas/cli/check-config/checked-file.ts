import { readFile } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { type ConfigWarning, warningReason } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import { fileProblem } from '../../../lib/file-problem.ts'
import { type AgentConfigurationFile, parseAgentConfiguration } from '../../agent-config/agent-config-file.ts'
import { parseModuleFile } from '../../agent-config/module-blocks.ts'
import { clearAddressAdvice, clearAddresses, clearAddressText } from '../../config/clear-addresses.ts'
import { parseKasConfig } from '../../config/kas-config.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { parseDirectory } from '../../directory/file/directory-contents.ts'
import { moduleSchemas } from '../../module-schemas.ts'
import { configLines } from '../config-lines.ts'
import { ignoreRemarks } from './ignore-rules.ts'
import { type NamedFiles, namedByDirectory, namedByKas, type Remark, unreadReason } from './named-files.ts'
import { refusedByAgentk } from './refused-by-agentk.ts'

const schemas = moduleSchemas.list

/** Names of the files in an agent's folder. */
export const agentFiles = ['config.yaml', ...schemas.flatMap(({ block, file }) => block?.ownFile ?? file?.name ?? [])]

/** One of the reasons why a file cannot be used. */
export interface Problem {
  /** the file, or `environment` */
  readonly file: string
  readonly line?: number | undefined
  readonly key?: string | undefined
  /** found value, and allowed values */
  readonly text: string
}

/** A key of a usable file that has no effect. */
export type WithoutEffect = ConfigWarning & { readonly line?: number | undefined }

export interface CheckedFile {
  readonly file: string
  readonly kind: 'kas' | 'agent' | 'directory'
  readonly problems: readonly Problem[]
  readonly withoutEffect: readonly WithoutEffect[]
  /** facts to know that are no faults */
  readonly notes: readonly Problem[]
  /** files that it names, and that are missing here */
  readonly unchecked: readonly Problem[]
}

/**
 * Checks a file as kas reads it at its start, with the settings of the environment.
 *
 * @param now - ms since 1970
 */
export async function checkedKasFile(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  now: number,
): Promise<{ readonly checked: CheckedFile; readonly config: KasConfig | undefined }> {
  let config: KasConfig | undefined
  const parse = (bytes: Buffer) => {
    const loaded = parseKasConfig(file, bytes.toString('utf8'), env)
    config = loaded.config
    return { ...loaded, named: () => withClearAddresses(loaded.config, now) }
  }
  const checked = await checkedFile(file, 'kas', parse)
  return { checked, config }
}

async function withClearAddresses(config: KasConfig, now: number): Promise<NamedFiles> {
  const named = await namedByKas(config, now)
  const secret = clearAddresses(config).filter(({ isSecret }) => isSecret)
  const clear = secret.map((one) => ({
    key: one.key,
    text: `${clearAddressText(one)}; ${clearAddressAdvice}`,
  }))
  const { file } = config.directory
  const reason = file === undefined ? undefined : await unreadReason(file)
  const absent = reason === undefined ? [] : [{ key: 'directory.file', text: `not checked: ${reason}` }]
  return { ...named, notes: [...clear, ...named.notes], unchecked: [...absent, ...named.unchecked] }
}

export function checkedDirectory(file: string): Promise<CheckedFile> {
  return checkedFile(file, 'directory', (bytes) => {
    const { contents, warnings } = parseDirectory(file, bytes.toString('utf8'))
    return { warnings, named: () => namedByDirectory(contents) }
  })
}

/**
 * Checks a file of an agent's folder: one of a module, or its configuration.
 *
 * @param named - all files of agents that are checked: one with a block is checked with the `config.yaml` of its folder
 */
export async function checkedAgentFile(file: string, maxBytes: number, named: readonly string[]): Promise<CheckedFile> {
  const name = basename(file)
  const block = schemas.find((one) => one.block?.ownFile === name)?.block
  const own = schemas.find((one) => one.file?.name === name)?.file
  const configuration = block && (await configurationBeside(file, named))
  return checkedFile(file, 'agent', (bytes) => {
    if (bytes.length > maxBytes) {
      throw invalid(file, `found ${bytes.length} bytes, allowed: ${maxBytes} (max_configuration_file_size)`)
    }
    if (block) {
      const beside = [{ key: block.key, file, bytes }]
      const alone = parseAgentConfiguration(file, new Uint8Array(), schemas, beside)
      if (configuration) parseAgentConfiguration(configuration.file, configuration.bytes, schemas, beside)
      return withRemarks(alone)
    }
    if (!own) return withRemarks(parseAgentConfiguration(file, bytes, schemas))
    parseModuleFile(own, file, bytes)
    return { warnings: [] }
  })
}

/** Adds what only a check says of a usable configuration: the programs do not warn of it. */
function withRemarks(read: AgentConfigurationFile): Parsed {
  const { warnings, notes } = ignoreRemarks(read)
  return {
    warnings: [...read.warnings, ...refusedByAgentk(read), ...warnings],
    named: async () => ({ ...nothingNamed, notes }),
  }
}

/** Returns the `config.yaml` beside the file; undefined if it is unusable itself, which is reported for that file. */
async function configurationBeside(
  file: string,
  named: readonly string[],
): Promise<{ readonly file: string; readonly bytes: Buffer } | undefined> {
  const folder = dirname(resolve(file))
  const beside = named.find((one) => basename(one) === 'config.yaml' && dirname(resolve(one)) === folder)
  if (beside === undefined) return undefined
  try {
    const bytes = await readFile(beside)
    parseAgentConfiguration(beside, bytes, schemas)
    return { file: beside, bytes }
  } catch {
    return undefined
  }
}

async function checkedFile(
  file: string,
  kind: CheckedFile['kind'],
  parse: (bytes: Buffer) => Parsed,
): Promise<CheckedFile> {
  const unusable = (problems: readonly Problem[]) => ({ ...nothing, file, kind, problems })
  let bytes: Buffer
  try {
    bytes = await readFile(file)
  } catch (error) {
    const text = `cannot be read: ${fileProblem(error)}`
    return unusable([{ file, text }])
  }
  const lineOf = configLines(bytes.toString('utf8'))
  let parsed: Parsed
  try {
    parsed = parse(bytes)
  } catch (error) {
    return unusable(problemsOf(error, file, lineOf))
  }
  const all = parsed.warnings.map((one) => ({ ...one, line: lineOf(one.key) }))
  const { problems, notes, unchecked } = (await parsed.named?.()) ?? nothingNamed
  const placed = (remarks: readonly Remark[]) => remarks.map((one) => ({ file, line: lineOf(one.key), ...one }))
  return {
    file,
    kind,
    problems: [
      ...all.filter(({ isDecisive }) => isDecisive).map((one) => decisiveProblem(file, one)),
      ...placed(problems),
    ],
    withoutEffect: all.filter(({ isDecisive }) => !isDecisive),
    notes: placed(notes),
    unchecked: placed(unchecked),
  }
}

interface Parsed {
  readonly warnings: readonly ConfigWarning[]
  /** checks the files that it names */
  named?(): Promise<NamedFiles>
}

const nothing = { problems: [], withoutEffect: [], notes: [], unchecked: [] }
const nothingNamed: NamedFiles = { problems: [], notes: [], unchecked: [] }

/** Returns a problem where the programs only warn, because a later release may know the key. */
function decisiveProblem(file: string, { key, line, ...warning }: WithoutEffect): Problem {
  return { file, line, key, text: warningReason(warning) }
}

function invalid(file: string, problem: string): KasError {
  return new KasError({ code: 'SETTINGS_INVALID', file, problems: [problem] })
}

/** @throws `error`, if it is about no file */
function problemsOf(error: unknown, file: string, lineOf: (key: string) => number | undefined): Problem[] {
  if (!(error instanceof KasError)) throw error
  const { spec, cause } = error
  if (spec.code === 'CONFIGURATION_INVALID') {
    if (cause instanceof KasError) return problemsOf(cause, file, lineOf)
    const texts = `; ${spec.detail}`.split(`; ${file}: `).slice(1)
    return (texts.length > 0 ? texts : [spec.detail]).map((text) => problemOf(file, text, lineOf))
  }
  if (spec.code !== 'SETTINGS_INVALID') throw error
  // an unknown key may be the reason why another one is missing
  const texts = [...spec.problems, ...(spec.hints ?? [])]
  return texts.map((text) => problemOf(spec.file, text, lineOf))
}

/** Parses a sentence of `lib/config.ts`: `line 7: agent.listen.network: found "udp", allowed: one of tcp, tcp4`. */
function problemOf(file: string, sentence: string, lineOf: (key: string) => number | undefined): Problem {
  const { line, key, text } = /^(?:line (?<line>\d+): )?(?:(?<key>\S+): )?(?<text>.*)$/s.exec(sentence)?.groups ?? {}
  const known = line === undefined ? (key === undefined ? undefined : lineOf(key)) : Number(line)
  return { file, line: known, key, text: text ?? sentence }
}
