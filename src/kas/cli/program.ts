import { type CommandGroup, tasks } from '../command/command.ts'

/** Width of the words in `kas --help`. */
const wordsWidth = 28

/** Text of `kas --help`: the commands by task. */
export function usage(groups: readonly CommandGroup[]): string {
  const sections = Object.entries(tasks).map(([task, title]) => {
    const lines = groups.filter((group) => group.task === task).map(({ help }) => help)
    return `${title}:\n${lines.map(([words, text]) => `  kas ${words.padEnd(wordsWidth)}${text}\n`).join('')}\n`
  })
  return `Usage: kas --configuration-file=<file>
       kas COMMAND ...

${sections.join('')}kas COMMAND --help explains the options and exit codes of a command.

Options:
  --configuration-file <file>   YAML, deploy/config.example.yaml shows every key
  --log-format json|text        of the log on stderr; text is for people (default: observability.logging.format)
  --version                     print the version and exit
  --help                        print this and exit
`
}

/** Words that may follow `kas`. */
export function subcommands(groups: readonly CommandGroup[]): string[] {
  const entries = groups.flatMap(({ commands }) => commands)
  return [...new Set(entries.map(({ words }) => words.split(' ')[0] ?? ''))]
}

/** Options of the program without a command. */
export const programOptions = {
  'configuration-file': { type: 'string' },
  'log-format': { type: 'string' },
  version: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const
