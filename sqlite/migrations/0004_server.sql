-- From this version on a file may have the ledger of a server. Its tables are not made
-- here but when it is first used (ledger.sql): empty they would take 56 KiB in every file.
SELECT 1;
