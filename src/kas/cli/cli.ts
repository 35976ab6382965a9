import { systemClock } from '../../lib/clock.ts'
import { nearestName } from '../../lib/nearest-name.ts'
import { type CliIo, parsedArgs, UsageError } from '../command/command.ts'
import type { Command } from './directory-command.ts'

/** By the words after `kas`. */
type Commands = typeof import('./commands.ts')['commands']

/** The word after `kas`: these ask a running replica. */
const statusWords = ['status', 'route'] as const
/** The word after `kas`: these ask any replica, as a user. */
const viewsWords = ['tree', 'get', 'health'] as const
type ViewsWord = (typeof viewsWords)[number]

const commonUsage = `  --directory FILE   the directory file (default: KAS_DIRECTORY_FILE of the environment)
  --print            say on stderr what to change in the file instead of writing it
`

/**
 * Runs a subcommand: one that edits the directory file, or asks a running replica.
 *
 * @param argv - without the program: `['agent', 'create', ...]`
 * @returns the exit code: 0, 1 if it failed, 2 if the command line is wrong
 */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  const [word = ''] = argv
  const statusWord = statusWords.find((one) => one === word)
  if (statusWord) return runStatus(statusWord, argv.slice(1), io)
  const viewsWord = viewsWords.find((one) => one === word)
  if (viewsWord) return runViews(viewsWord, argv.slice(1), io)
  if (word === 'gitops') return runGitops(argv.slice(1), io)
  if (word === 'agents') return runAgents(argv.slice(1), io)
  if (word === 'log') return runLog(argv.slice(1), io)
  if (word === 'sessions') return runSessions(argv.slice(1), io)
  if (word === 'views') return runViewsRole(argv.slice(1), io)
  if (word === 'completion') return runCompletion(argv.slice(1), io)
  if (word === 'doctor') return runDoctor(argv.slice(1), io)
  if (word === 'check-config') return runCheckConfig(argv.slice(1), io)
  return runDirectory(argv, io)
}

async function runDirectory(argv: readonly string[], io: CliIo): Promise<number> {
  const [word = ''] = argv
  const { commands } = await import('./commands.ts') // here: the others read no directory file
  const name = Object.keys(commands).find((one) => one.split(' ').every((part, i) => argv[i] === part))
  const command = name === undefined ? undefined : commands[name]
  if (!command || !name) {
    const wantsHelp = argv.some((one) => one === '--help' || one === '-h')
    const unknown = wantsHelp ? '' : unknownCommand(argv, commands)
    io[wantsHelp ? 'stdout' : 'stderr'].write(`${unknown}${await overview(word, commands)}`)
    return wantsHelp ? 0 : 2
  }
  return guarded({ name, usage: command.usage, io }, () => run(command, argv.slice(name.split(' ').length), io))
}

async function runStatus(word: (typeof statusWords)[number], args: readonly string[], io: CliIo): Promise<number> {
  const [{ statusCommands }, { runStatusCommand }] = await Promise.all([
    import('./status-commands.ts'), // here: the others ask no replica
    import('./status-command.ts'),
  ])
  const command = statusCommands[word]
  return guarded({ name: word, usage: command.usage, io }, async () => {
    io.stdout.write(await runStatusCommand(command, args, io))
    return 0
  })
}

async function runViews(word: ViewsWord, args: readonly string[], io: CliIo): Promise<number> {
  const [{ viewsCommands }, { runViewsCommand }] = await Promise.all([
    import('../modules/views/cli/commands.ts'), // here: the others need no WebSocket
    import('../modules/views/cli/views-command.ts'),
  ])
  const command = viewsCommands[word]
  return guarded({ name: word, usage: command.usage, io }, () =>
    runViewsCommand(command, args, { io, clock: systemClock, random: Math.random }),
  )
}

async function runGitops(args: readonly string[], io: CliIo): Promise<number> {
  // here: the others need no kubeconfig
  if (args[0] === 'forget') {
    const { forgetUsage, gitopsForget } = await import('../modules/gitops/cli/forget.ts')
    return guarded({ name: 'gitops', usage: forgetUsage, io }, () => gitopsForget(args, { io, clock: systemClock }))
  }
  const { gitopsStatus, gitopsUsage } = await import('../modules/gitops/cli/status.ts')
  return guarded({ name: 'gitops', usage: gitopsUsage, io }, () => gitopsStatus(args, { io, clock: systemClock }))
}

async function runLog(args: readonly string[], io: CliIo): Promise<number> {
  const { logUsage, showLog } = await import('./log.ts')
  return guarded({ name: 'log', usage: logUsage, io }, () => showLog(args, io))
}

async function runSessions(args: readonly string[], io: CliIo): Promise<number> {
  const { sessions, sessionsUsage } = await import('./sessions.ts')
  return guarded({ name: 'sessions', usage: sessionsUsage, io }, () => sessions(args, { io, clock: systemClock }))
}

async function runAgents(args: readonly string[], io: CliIo): Promise<number> {
  const { agents, agentsUsage } = await import('./agents.ts') // here: the others need no kubeconfig
  return guarded({ name: 'agents', usage: agentsUsage, io }, () => agents(args, io))
}

async function runViewsRole(args: readonly string[], io: CliIo): Promise<number> {
  const { viewsRole, viewsRoleUsage } = await import('../modules/views/cli/views-role.ts') // here: the others need no kubeconfig
  return guarded({ name: 'views', usage: viewsRoleUsage, io }, () => viewsRole(args, io))
}

async function runCompletion(args: readonly string[], io: CliIo): Promise<number> {
  const { completion, completionUsage } = await import('./completion/completion.ts') // here: it knows all others
  return guarded({ name: 'completion', usage: completionUsage, io }, async () => completion(args, io))
}

async function runDoctor(args: readonly string[], io: CliIo): Promise<number> {
  const { doctor, doctorUsage } = await import('./doctor/doctor.ts') // here: the others need no GitLab
  return guarded({ name: 'doctor', usage: doctorUsage, io }, () => doctor(args, { io, clock: systemClock }))
}

async function runCheckConfig(args: readonly string[], io: CliIo): Promise<number> {
  const { checkConfig, checkConfigUsage } = await import('./check-config/check-config.ts') // here: the others need no parsers
  return guarded({ name: 'check-config', usage: checkConfigUsage, io }, () => checkConfig(args, io))
}

async function guarded(
  { name, usage, io }: { name: string; usage: string; io: CliIo },
  action: () => Promise<number>,
): Promise<number> {
  try {
    return await action()
  } catch (error) {
    const isUsage = error instanceof UsageError
    const text = error instanceof Error ? error.message : String(error)
    io.stderr.write(`kas ${name}: ${text}\n${isUsage ? `usage: kas ${usage}\n` : ''}`)
    return isUsage ? 2 : 1
  }
}

function unknownCommand([word = '', verb = '']: readonly string[], commands: Commands): string {
  const verbs = Object.keys(commands).flatMap((name) => (name.startsWith(`${word} `) ? [name.split(' ')[1] ?? ''] : []))
  const near = nearestName(verb, verbs)
  return verb === '' || near === undefined ? '' : `kas ${word} ${verb}: did you mean kas ${word} ${near}?\n`
}

async function run(command: Command, args: readonly string[], io: CliIo): Promise<number> {
  const { commonOptions } = await import('./commands.ts')
  const options = { ...command.options, ...commonOptions }
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  if (values.help) {
    io.stdout.write(`usage: kas ${command.usage}\n  ${command.summary}\n${commonUsage}`)
    return 0
  }
  const file = values.directory ?? io.env.KAS_DIRECTORY_FILE
  const isNamed = typeof file === 'string' && file !== ''
  if (!isNamed && !command.doesWithout?.(values)) {
    throw new UsageError('which directory file? Say --directory FILE, or set KAS_DIRECTORY_FILE')
  }
  if (positionals.length > command.positionals)
    throw new UsageError(`too much: ${positionals.slice(command.positionals).join(' ')}`)
  const { DirectoryDocument } = await import('./directory-document.ts') // here: `kas status` and helps need none of it
  const directory = isNamed ? await DirectoryDocument.load(file) : DirectoryDocument.nowhere()
  let isPrinted = false
  const commit = async () => {
    if (!directory.isChanged || isPrinted) return
    if (!values.print) return await directory.save()
    isPrinted = true
    io.stderr.write(`${file} is not written; what to change there:\n${directory.instructions}`)
  }
  const output = await command.run({ values, positionals, directory, io, clock: systemClock, commit })
  await commit()
  io.stdout.write(output)
  return 0
}

async function overview(word: string, commands: Commands): Promise<string> {
  const own = Object.entries(commands).filter(([name]) => name.split(' ')[0] === word)
  if (own.length > 0) return `${usages(own.map(([, command]) => command))}${commonUsage}`
  const [{ statusCommands }, { statusUsage }] = await Promise.all([
    import('./status-commands.ts'),
    import('./status-command.ts'),
  ])
  return [usages(Object.values(commands)), commonUsage, usages(Object.values(statusCommands)), statusUsage].join('')
}

function usages(shown: readonly { readonly usage: string; readonly summary: string }[]): string {
  return shown.map(({ usage, summary }) => `usage: kas ${usage}\n  ${summary}\n`).join('')
}
