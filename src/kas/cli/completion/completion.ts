import { type Command, type CommandContext, parsedArgs, UsageError } from '../../command/command.ts'
import { commandTree, type Place } from './command-tree.ts'
import { bashScript, fishScript, zshScript } from './scripts.ts'

const usage = 'completion bash|zsh|fish'

const help = `usage: kas ${usage}
  prints what makes the shell propose words and options of kas
  bash   source <(kas completion bash)                     in ~/.bashrc
  zsh    source <(kas completion zsh)                      in ~/.zshrc, behind compinit
  fish   kas completion fish | source                      in ~/.config/fish/config.fish
  exit code: 0 done, 2 the command line is wrong
`

const shells = ['bash', 'zsh', 'fish'] as const

const scripts: Readonly<Record<(typeof shells)[number], (places: readonly Place[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

const options = { help: { type: 'boolean', short: 'h' } } as const

/** `kas completion` */
export const completion: Command = { usage, options, operands: shells, run }

/** @throws UsageError */
async function run(args: readonly string[], { io, groups }: CommandContext): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const shell = shells.find((one) => one === positionals[0])
  if (!shell || positionals.length > 1) throw new UsageError(`for which shell? Allowed is one of ${shells.join(', ')}`)
  io.stdout.write(scripts[shell](await commandTree(groups)))
  return 0
}
