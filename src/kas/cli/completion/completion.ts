import { type CliIo, parsedArgs, UsageError } from '../../command/command.ts'
import { commandTree, type Place, shells } from './command-tree.ts'
import { bashScript, fishScript, zshScript } from './scripts.ts'

export const completionUsage = 'completion bash|zsh|fish'

const help = `usage: kas ${completionUsage}
  prints what makes the shell propose words and options of kas
  bash   source <(kas completion bash)                     in ~/.bashrc
  zsh    source <(kas completion zsh)                      in ~/.zshrc, behind compinit
  fish   kas completion fish | source                      in ~/.config/fish/config.fish
`

const scripts: Readonly<Record<(typeof shells)[number], (places: readonly Place[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

/** `kas completion`. @returns the exit code. @throws UsageError */
export function completion(args: readonly string[], io: CliIo): number {
  const options = { help: { type: 'boolean', short: 'h' } } as const
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const shell = shells.find((one) => one === positionals[0])
  if (!shell || positionals.length > 1) throw new UsageError(`for which shell? Allowed is one of ${shells.join(', ')}`)
  io.stdout.write(scripts[shell](commandTree()))
  return 0
}
