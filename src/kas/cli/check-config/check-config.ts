import { resolve } from 'node:path'
import { warningReason } from '../../../lib/config.ts'
import { printable } from '../../../lib/printable.ts'
import {
  type CliIo,
  type Command,
  type CommandContext,
  parsedArgs,
  textOption,
  UsageError,
} from '../../command/command.ts'
import { type Data, dataText, outputHelp, outputOptions, readPrinting } from '../../command/output.ts'
import {
  agentFiles,
  type CheckedFile,
  checkedAgentFile,
  checkedDirectory,
  checkedKasFile,
  type Problem,
  type WithoutEffect,
} from './checked-file.ts'
import { unreadReason } from './named-files.ts'
import type { ConfigurationReport, FileReport } from './output-kinds.ts'

const usage =
  'check-config [--configuration-file FILE] [--directory FILE] [--agent-file FILE]... [--files] [--strict] [-o FORMAT]'

const options = {
  'configuration-file': { type: 'string' },
  directory: { type: 'string' },
  'agent-file': { type: 'string', multiple: true },
  files: { type: 'boolean' },
  strict: { type: 'boolean' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

const outputs = ['table', 'json', 'yaml'] as const

const help = `usage: kas ${usage}
  says whether files can be used, as the programs read them; nothing listens, nobody is asked
  a misspelt key that says who may do what, or where kas listens, is a fault; files that these name are read
  --configuration-file FILE    of kas, with what the environment sets
  --directory FILE             the directory file
  --agent-file FILE            ${agentFiles.slice(0, -1).join(', ')} or ${agentFiles.at(-1)} of an agent; as often as there are files
  --files                      a file that these name (a secret, a certificate) and that is not here is a fault, too
  --strict                     a key that has no effect is a fault, too
${outputHelp(outputs)}  exit code: 0 if all can be used, 1 if one cannot, 2 if the command line is wrong
`

/** `agent.configuration.max_configuration_file_size`, if no configuration of kas is checked */
const defaultMaxAgentBytes = 131_072

/** `kas check-config` */
export const checkConfig: Command = { usage, options, outputs, run }

/** @throws UsageError */
async function run(args: readonly string[], { io, clock }: CommandContext): Promise<number> {
  const { values } = parsedArgs({ args: [...args], options })
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const { output } = readPrinting(values, outputs, io)
  const files = await checkedFiles(
    {
      now: clock.now(),
      kas: textOption(values, 'configuration-file'),
      directory: textOption(values, 'directory'),
      agent: values['agent-file'] ?? [],
    },
    io.env,
  )
  if (files.length === 0) throw new UsageError('which file? Say --configuration-file, --directory or --agent-file')
  const isStrict = values.strict ?? false
  const needsFiles = values.files ?? false
  const isUsable = ({ problems, withoutEffect, unchecked }: CheckedFile) =>
    problems.length === 0 && !(isStrict && withoutEffect.length > 0) && !(needsFiles && unchecked.length > 0)
  const table = () => files.map((one) => textOf(one, isUsable(one))).join('')
  const fields = { files: files.map(fieldsOf(isUsable)) }
  const data: Data<ConfigurationReport> = { kind: 'ConfigurationReport', fields, table }
  io.stdout.write(await dataText(data, output))
  return files.every(isUsable) ? 0 : 1
}

async function checkedFiles(
  named: {
    readonly now: number
    readonly kas: string | undefined
    readonly directory: string | undefined
    readonly agent: readonly string[]
  },
  env: CliIo['env'],
): Promise<CheckedFile[]> {
  const kas = named.kas === undefined ? undefined : await checkedKasFile(named.kas, env, named.now)
  const maxBytes = kas?.config?.agent.configuration.max_configuration_file_size ?? defaultMaxAgentBytes
  const directories = new Map<string, string>()
  const ofKas = kas?.config?.directory.file
  if (ofKas !== undefined && (await unreadReason(ofKas)) === undefined) directories.set(resolve(ofKas), ofKas)
  if (named.directory !== undefined) directories.set(resolve(named.directory), named.directory)
  const directory: CheckedFile[] = []
  for (const file of directories.values()) directory.push(await checkedDirectory(file))
  const agent: CheckedFile[] = []
  for (const file of named.agent) agent.push(await checkedAgentFile(file, maxBytes, named.agent))
  return [...(kas ? [kas.checked] : []), ...directory, ...agent]
}

const fieldsOf =
  (isUsable: (one: CheckedFile) => boolean) =>
  (one: CheckedFile): FileReport => ({
    file: one.file,
    kind: one.kind,
    usable: isUsable(one),
    problems: one.problems,
    withoutEffect: one.withoutEffect.map(({ kind, key, hint, line }) => ({ kind, key, hint, line })),
    notes: one.notes,
    unchecked: one.unchecked,
  })

function textOf(one: CheckedFile, isUsable: boolean): string {
  const { withoutEffect, unchecked } = one
  const keys = countText(withoutEffect.length, ['key has no effect', 'keys have no effect'])
  const files = countText(unchecked.length, ['file is not checked', 'files are not checked'])
  const lines = [
    ...one.problems.map(problemText),
    ...withoutEffect.map((key) => withoutEffectText(one.file, key)),
    ...[...one.notes, ...unchecked].map(problemText),
    `${one.file}: ${isUsable ? 'can be used' : 'cannot be used'}${keys}${files}`,
  ]
  return lines.map((line) => `${printable(line)}\n`).join('')
}

function countText(count: number, [one, more]: readonly [string, string]): string {
  return count === 0 ? '' : `; ${count} ${count === 1 ? one : more}`
}

function problemText({ file, line, key, text }: Problem): string {
  return `${file}: ${place(line)}${key === undefined ? '' : `${key}: `}${text}`
}

function withoutEffectText(file: string, { line, ...warning }: WithoutEffect): string {
  return `${file}: ${place(line)}${warning.key}: ${warningReason(warning)}`
}

const place = (line: number | undefined) => (line === undefined ? '' : `line ${line}: `)
