/** What `kas doctor` checks, in the order of doc/doctor.md. */
export const checkNames = [
  'configuration',
  'listen',
  'directory',
  'secrets',
  'certificates',
  'git',
  'discovery',
  'kubernetes',
  'graces',
  'proxies',
  'gitlab',
  'gitaly',
  'clocks',
  'replicas',
  'front',
  'idle',
] as const
