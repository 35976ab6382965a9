import { nearestName } from '../../lib/nearest-name.ts'
import { type Command, parsedArgs, textOption, UsageError } from '../command/command.ts'
import { type Data, dataText, outputs, readPrinting } from '../command/output.ts'
import { agentCreate, userCreate } from './create.ts'
import type { DirectoryCommand, DirectoryResult } from './directory-command.ts'
import { directoryHelp, overviewHelp } from './directory-help.ts'
import { agentList, agentShow, tokenList, tokenShow, userList, userShow } from './listing.ts'
import { agentDelete, agentRotate, tokenRotate, userDelete, userRotate } from './owners.ts'
import { tokenCreate, tokenDelete, tokenRevoke } from './token.ts'

const toFile = 'The file to write is named by --file FILE'

/** `kas kubeconfig` */
const kubeconfig: DirectoryCommand = {
  usage:
    'kubeconfig (--agent NAME [--project PATH] [--context NAME] | --all) --server URL [--ca FILE] [--namespace NAME] (--user NAME [--token-name NAME] [--expires 90d|DATE|never] | --token-file FILE [--ci]) [--file FILE]',
  summary:
    'adds an agent, or all that the user may use, to a kubeconfig: FILE, else that of KUBECONFIG, else (and with -) stdout; others stay as they are. The token is the one of that name (default: of this host), or that in the file',
  options: {
    agent: { type: 'string' },
    all: { type: 'boolean' },
    project: { type: 'string' },
    context: { type: 'string' },
    server: { type: 'string' },
    ca: { type: 'string' },
    namespace: { type: 'string' },
    user: { type: 'string' },
    'token-name': { type: 'string' },
    expires: { type: 'string' },
    'token-file': { type: 'string' },
    ci: { type: 'boolean' },
    file: { type: 'string' },
  },
  hints: { output: toFile, o: toFile },
  positionals: 0,
  doesWithout: (values) => textOption(values, 'token-file') !== undefined,
  async run(context) {
    const { addToKubeconfig } = await import('./kubeconfig/add.ts') // a help loads nothing
    return addToKubeconfig(context)
  },
}

/** Commands that read or edit the directory file, by the words after `kas`. */
const commands: Readonly<Record<string, DirectoryCommand>> = {
  'agent create': agentCreate,
  'agent list': agentList,
  'agent show': agentShow,
  'agent delete': agentDelete,
  'agent rotate': agentRotate,
  'token create': tokenCreate,
  'token list': tokenList,
  'token show': tokenShow,
  'token delete': tokenDelete,
  'token revoke': tokenRevoke,
  'token rotate': tokenRotate,
  'user create': userCreate,
  'user list': userList,
  'user show': userShow,
  'user delete': userDelete,
  'user rotate': userRotate,
  kubeconfig,
}

/** Options of each of `commands`. */
const commonOptions = {
  directory: { type: 'string' },
  print: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

/** @param words - words of one of `commands`, or their first word, whose command lists them */
export function directoryCommand(words: string): Command {
  const command = commands[words]
  return command ? runnable(words, command) : overview(words)
}

function runnable(words: string, command: DirectoryCommand): Command {
  const options = { ...command.options, ...commonOptions }
  return {
    usage: command.usage,
    options,
    ...('output' in options && { outputs }),
    async run(args, { io, clock }) {
      const behind = args.slice(words.split(' ').length - 1)
      const { values, positionals } = parsedArgs({ args: behind, options, allowPositionals: true }, command.hints)
      if (values.help) {
        io.stdout.write(directoryHelp(words, command))
        return 0
      }
      const { output, hasHeaders } = readPrinting(values, outputs, io)
      const print = (data: Data) => dataText(data, output, hasHeaders)
      const file = values.directory ?? io.env.KAS_DIRECTORY_FILE
      const isNamed = typeof file === 'string' && file !== ''
      if (!isNamed && !command.doesWithout?.(values)) {
        throw new UsageError('which directory file? Say --directory FILE, or set KAS_DIRECTORY_FILE')
      }
      if (positionals.length > command.positionals)
        throw new UsageError(`too much: ${positionals.slice(command.positionals).join(' ')}`)
      const { DirectoryDocument } = await import('./directory-document.ts') // loaded only here, not for a help
      const directory = isNamed ? await DirectoryDocument.load(file) : DirectoryDocument.nowhere()
      let isPrinted = false
      const commit = async () => {
        if (!directory.isChanged || isPrinted) return
        if (!values.print) return await directory.save()
        isPrinted = true
        io.stderr.write(`${file} is not written; what to change there:\n${directory.instructions}`)
      }
      const result = await command.run({ values, positionals, directory, io, clock, print, commit })
      await commit()
      const { note, output: text = '' }: DirectoryResult = typeof result === 'string' ? { output: result } : result
      if (note !== undefined) io.stderr.write(`${note}\n`)
      io.stdout.write(text)
      return 0
    },
  }
}

/** Verbs of other programs, with those of directory commands. */
const usualVerbs: Readonly<Record<string, string>> = {
  add: 'create',
  destroy: 'delete',
  get: 'show',
  ls: 'list',
  new: 'create',
  remove: 'delete',
  rm: 'delete',
}

/** Command of a first word, which lists all commands that begin with it. */
function overview(word: string): Command {
  const own = Object.entries(commands).filter(([words]) => words.startsWith(`${word} `))
  return {
    usage: word,
    options: { help: commonOptions.help },
    async run(args, { io }) {
      const wantsHelp = args.some((one) => one === '--help' || one === '-h')
      const [verb = ''] = args
      const verbs = own.map(([words]) => words.slice(word.length + 1))
      const usual = Object.hasOwn(usualVerbs, verb) ? usualVerbs[verb] : undefined
      const near = usual ?? nearestName(verb, verbs)
      const meant = near === undefined ? 'there is no such command' : `did you mean kas ${word} ${near}?`
      const unknown = wantsHelp || verb === '' ? '' : `kas ${word} ${verb}: ${meant}\n`
      const text = overviewHelp(own.map(([, command]) => command))
      io[wantsHelp ? 'stdout' : 'stderr'].write(`${unknown}${text}`)
      return wantsHelp ? 0 : 2
    },
  }
}
