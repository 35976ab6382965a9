import { parseArgs } from 'node:util'
import { nearestName } from '../../lib/nearest-name.ts'
import { agentCreate } from './agent.ts'
import type { CliIo, Command } from './command.ts'
import { DirectoryDocument } from './directory-document.ts'
import { kubeconfig } from './kubeconfig.ts'
import { tokenCreate, tokenRevoke } from './token.ts'
import { UsageError } from './usage-error.ts'
import { userCreate } from './user.ts'

/** By the words after `kas`. */
const commands: Readonly<Record<string, Command>> = {
  'agent create': agentCreate,
  'token create': tokenCreate,
  'token revoke': tokenRevoke,
  'user create': userCreate,
  kubeconfig,
}

const commonOptions = {
  directory: { type: 'string' },
  print: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

const commonUsage = `  --directory FILE   the directory file (default: KAS_DIRECTORY_FILE of the environment)
  --print            say on stderr what to change in the file instead of writing it
`

/**
 * Runs a subcommand that edits the directory file.
 *
 * @param argv - without the program: `['agent', 'create', ...]`
 * @returns the exit code: 0, 1 if it failed, 2 if the command line is wrong
 */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  const name = Object.keys(commands).find((one) => one.split(' ').every((word, i) => argv[i] === word))
  const command = name === undefined ? undefined : commands[name]
  if (!command || !name) {
    const wantsHelp = argv.some((word) => word === '--help' || word === '-h')
    const unknown = wantsHelp ? '' : unknownCommand(argv)
    io[wantsHelp ? 'stdout' : 'stderr'].write(`${unknown}${overview(argv[0])}`)
    return wantsHelp ? 0 : 2
  }
  try {
    return await run(command, argv.slice(name.split(' ').length), io)
  } catch (error) {
    const isUsage = error instanceof UsageError
    const text = error instanceof Error ? error.message : String(error)
    io.stderr.write(`kas ${name}: ${text}\n${isUsage ? `usage: kas ${command.usage}\n` : ''}`)
    return isUsage ? 2 : 1
  }
}

function unknownCommand([word = '', verb = '']: readonly string[]): string {
  const verbs = Object.keys(commands).flatMap((name) => (name.startsWith(`${word} `) ? [name.split(' ')[1] ?? ''] : []))
  const near = nearestName(verb, verbs)
  return verb === '' || near === undefined ? '' : `kas ${word} ${verb}: did you mean kas ${word} ${near}?\n`
}

async function run(command: Command, args: readonly string[], io: CliIo): Promise<number> {
  const { values, positionals } = parse(command, args)
  if (values.help) {
    io.stdout.write(`usage: kas ${command.usage}\n  ${command.summary}\n${commonUsage}`)
    return 0
  }
  const file = values.directory ?? io.env.KAS_DIRECTORY_FILE
  if (typeof file !== 'string' || file === '') {
    throw new UsageError('which directory file? Say --directory FILE, or set KAS_DIRECTORY_FILE')
  }
  if (positionals.length > command.positionals)
    throw new UsageError(`too much: ${positionals.slice(command.positionals).join(' ')}`)
  const directory = await DirectoryDocument.load(file)
  const output = await command.run({ values, positionals, directory, io })
  if (directory.isChanged && values.print) {
    io.stderr.write(`${file} is not written; what to change there:\n${directory.instructions}`)
  } else if (directory.isChanged) await directory.save()
  io.stdout.write(output)
  return 0
}

function parse(command: Command, args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: { ...command.options, ...commonOptions }, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message) // node:util says which option
  }
}

function overview(word: string | undefined): string {
  const own = Object.entries(commands).filter(([name]) => name.split(' ')[0] === word)
  const shown = own.length > 0 ? own : Object.entries(commands)
  return `${shown.map(([, { usage, summary }]) => `usage: kas ${usage}\n  ${summary}\n`).join('')}${commonUsage}`
}
