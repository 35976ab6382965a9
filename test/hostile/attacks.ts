import type { Attack } from './attack.ts'
import { badMetadataAttack } from './attacks/bad-metadata.ts'
import { descriptors } from './attacks/descriptors.ts'
import { gzip } from './attacks/gzip.ts'
import { idleConnects } from './attacks/idle-connects.ts'
import { longErrors } from './attacks/long-errors.ts'

/** All that is played. */
export const attacks: readonly Attack<unknown>[] = [
  descriptors,
  longErrors,
  gzip,
  badMetadataAttack,
  idleConnects,
] as Attack<unknown>[]
