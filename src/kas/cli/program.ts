/** What `kas --help` prints. */
export const usage = `Usage: kas --configuration-file=<file>
       kas agent|token|user|kubeconfig ...   list and edit who is who in a directory file: kas agent --help
       kas agents ...                        ask a running kas for the agents that let you in
       kas status|route ...                  ask a running replica who is there, and where a call would go
       kas log ...                           show who did what by way of a running replica: kas log --help
       kas sessions ...                      show what lasts at all replicas, and end it: kas sessions --help
       kas tree|get|health ...               show what runs in a cluster, and how it fares: kas tree --help
       kas views role ...                    print the rights that agentk needs to show more: kas views --help
       kas gitops ...                        show how an agent's GitOps sources fare, and forget one: kas gitops --help
       kas completion bash|zsh|fish          print what makes the shell propose words and options: kas completion --help
       kas check-config ...                  say whether files of kas, of agents, the directory can be used
       kas doctor ...                        check what a configuration names, and say what is wrong, and what to do

Options:
  --configuration-file <file>   YAML, deploy/config.example.yaml shows every key
  --version                     print the version and exit
  --help                        print this and exit
`

/** The words after `kas`. */
export const subcommands = [
  'agent',
  'token',
  'user',
  'kubeconfig',
  'agents',
  'status',
  'route',
  'log',
  'sessions',
  'tree',
  'get',
  'health',
  'views',
  'gitops',
  'completion',
  'check-config',
  'doctor',
]

/** What the program takes without such a word. */
export const programOptions = {
  'configuration-file': { type: 'string' },
  version: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const
