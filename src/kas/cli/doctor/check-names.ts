/** What `kas doctor` looks at, in the order of doc/doctor.md. */
export const checkNames = [
  'configuration',
  'directory',
  'secrets',
  'certificates',
  'git',
  'discovery',
  'gitlab',
  'replicas',
] as const
export type CheckName = (typeof checkNames)[number]
